"""What a block saves when its base is frozen and low-rank adapters train: no inputs of frozen matrices, but the
adapters' own copies. Source: measured with PEFT on real model code (activations §6)."""

from __future__ import annotations

from accounting.memory.saved import mixture_rows
from accounting.memory.saved_attention import Widths, core_rows, latent_rows
from accounting.memory.saved_rows import AdapterRows, Block, Saved, Split

_INPUT_OF = {"q_proj": "x", "k_proj": "x", "v_proj": "x", "gate_proj": "y", "up_proj": "y"}


def adapter_rows(block: Block, adapter: AdapterRows) -> list[Saved]:
    """Saved tensors of a block whose matrices carry adapters.

    fp32 adapters on a 16-bit base outside autocast keep an fp32 copy of each target's input.
    """
    architecture, numerics = block.architecture, block.numerics
    h = architecture.hidden_size
    q, g = architecture.heads * architecture.head_dim, architecture.kv_heads * architecture.head_dim
    rows = [
        Saved("layernorm", f"norm {index + 1}", _norm_bytes(block, h), Split.SEQUENCE)
        for index in range(architecture.norms_per_layer)
    ]
    if architecture.mla is not None:
        rows += latent_rows(block)
    else:
        rows += core_rows(block, Widths(q, g, g, q, g))
    if block.kind.mixture:
        rows += mixture_rows(block)
    else:
        rows.append(Saved("mlp", "MLP activations", _mlp_bytes(block) * architecture.ffn_size, Split.TENSOR))
    widths = {"o_proj": q, "down_proj": architecture.ffn_size}
    return rows + _target_rows(block, adapter, widths)


def _norm_bytes(block: Block, width: int) -> int:
    """A frozen RMSNorm keeps no normalised value; a LayerNorm keeps its input as ever."""
    numerics = block.numerics
    if block.architecture.norm == "layernorm":
        return (4 if numerics.autocast else numerics.residual) * width + 8
    return (numerics.residual if numerics.fused_norm else 4) * width + 4


def _mlp_bytes(block: Block) -> int:
    """Gate, activated gate and up; a plain MLP keeps what its activation needs, not the frozen matrix's input."""
    architecture, numerics = block.architecture, block.numerics
    if architecture.gated_mlp:
        return (2 if numerics.fused else 3) * numerics.compute
    if architecture.activation == "gelu_new" and not numerics.fused_activation:
        return 14 if numerics.autocast else 4 * numerics.compute
    return numerics.compute


def _target_rows(block: Block, adapter: AdapterRows, widths: dict[str, int]) -> list[Saved]:
    numerics, rank = block.numerics, adapter.rank
    h = block.architecture.hidden_size
    rows: list[Saved] = []
    shared: set[str] = set()
    for name in sorted(adapter.targets):
        width = widths.get(name, h)
        split = Split.TENSOR if name in widths else Split.GATHERED
        if numerics.autocast:
            rows.append(Saved("adapter", f"{name} input and projection", 2 * (width + rank), split))
        elif adapter.itemsize == 4 and numerics.compute == 2:
            rows.append(Saved("adapter", f"{name} fp32 input and projection", 4 * (width + rank), split))
        else:
            source = _INPUT_OF.get(name, name)
            # The attention output is saved already as the kernel's own.
            fresh = source not in shared and not (name == "o_proj" and block.attention != "eager")
            shared.add(source)
            rows.append(Saved("adapter", f"{name} input", numerics.compute * (width * fresh + rank), split))
    return rows
