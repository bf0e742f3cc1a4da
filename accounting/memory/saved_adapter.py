"""What a block saves when its base is frozen and low-rank adapters train: no inputs of frozen matrices, but the
adapters' own copies. Source: measured with PEFT on real model code (activations §6, saved_tensors.csv)."""

from __future__ import annotations

from dataclasses import replace

from accounting.memory.saved import norm_list, router_bytes
from accounting.memory.saved_attention import Widths, core_rows, kernel_of, latent_widths
from accounting.memory.saved_rows import AdapterRows, Block, Saved, Split

_INPUT_OF = {
    "q_proj": "x",
    "k_proj": "x",
    "v_proj": "x",
    "q_a_proj": "x",
    "kv_a_proj_with_mqa": "x",
    "gate_proj": "y",
    "up_proj": "y",
}
"""Matrices that read one and the same tensor."""
_OF_FROZEN_MATRICES = frozenset({"output in token order", "output cut to the width of v"})
"""Rows that only the output projection's weight gradient needs."""


def adapter_rows(block: Block, adapter: AdapterRows) -> list[Saved]:
    """Saved tensors of a block whose matrices carry adapters.

    fp32 adapters on a 16-bit base outside autocast keep an fp32 copy of each target's input.
    """
    architecture = block.architecture
    q, g = architecture.query_width, architecture.key_value_width
    widths = Widths(q, g, g, q, g) if architecture.mla is None else latent_widths(block)
    rows = [*stream_norms(block), *inner_norms(block), *_attention(block, widths)]
    if block.kind.mixture:
        rows += _frozen_mixture(block)
    else:
        rows.append(Saved("mlp", "MLP activations", _mlp_bytes(block) * architecture.ffn_size, Split.TENSOR))
    return rows + _target_rows(block, adapter, widths.output)


def _attention(block: Block, widths: Widths) -> list[Saved]:
    """A fused kernel's backward reads its output; written out, only the output projection's weight gradient does."""
    rows = [row for row in core_rows(block, widths) if row.name not in _OF_FROZEN_MATRICES]
    return rows if _keeps_output(block) else [row for row in rows if row.module != "core_attention_output"]


def _keeps_output(block: Block) -> bool:
    return kernel_of(block) in ("flash", "efficient")


def stream_norms(block: Block) -> list[Saved]:
    """A frozen RMSNorm keeps no normalised value; a LayerNorm keeps its input as ever."""
    architecture, numerics = block.architecture, block.numerics
    h = architecture.hidden_size
    if architecture.norm == "layernorm":
        # Over a 16-bit base autocast makes an fp32 copy of the input for each norm, parallel or not.
        apart = numerics.autocast and not block.whole_base
        rows = norm_list(block)
        return [replace(row, per_token=rows[0].per_token) for row in rows] if apart else rows
    return [_frozen_rms(block, "layernorm", f"norm {index + 1}", h) for index in range(architecture.norms_per_layer)]


def _frozen_rms(block: Block, module: str, name: str, width: int) -> Saved:
    numerics = block.numerics
    kept = numerics.residual if numerics.fused_norm else 4
    fixed = 4 * width if block.habits.norm_weight_from_one and not numerics.fused_norm else 0
    return Saved(module, name, kept * width + 4, Split.SEQUENCE, fixed=fixed)


def inner_norms(block: Block) -> list[Saved]:
    """Norms of queries and keys, or of the latents."""
    architecture, mla = block.architecture, block.architecture.mla
    if mla is not None:
        rows = [_frozen_rms(block, "mla_up_proj", "q latent", mla.q_lora_rank)] if mla.q_lora_rank else []
        whole = mla.kv_lora_rank + (mla.qk_rope_head_dim if block.numerics.compute == 4 else 0)
        return [*rows, _frozen_rms(block, "mla_up_proj", "kv latent", whole)]
    if not architecture.qk_norm:
        return []
    spans_all = architecture.qk_norm_width == "full"
    rows = []
    for name, heads, split in (
        ("q norm", architecture.heads, Split.TENSOR),
        ("k norm", architecture.kv_heads, Split.KV),
    ):
        fixed = 4 * architecture.head_dim if block.habits.norm_weight_from_one else 0
        kept = 4 * heads * architecture.head_dim + 4 * (1 if spans_all else heads)
        rows.append(Saved("attention_norm", name, kept, split, fixed=fixed))
    return rows


def _frozen_mixture(block: Block) -> list[Saved]:
    """No inputs of the router's, the experts' and the shared experts' matrices, and no product before the last."""
    architecture, numerics = block.architecture, block.numerics
    moe = architecture.moe
    assert moe is not None
    w = numerics.residual if block.whole_base else numerics.compute
    pieces = 2 if numerics.fused else block.habits.mlp_pieces - 1
    rows = [
        Saved("router", "router", router_bytes(block), Split.SEQUENCE, fixed=4 * moe.experts),
        Saved("moe", "returned tokens", w * architecture.hidden_size, Split.WHOLE, routed=True),
        Saved("moe", "expert activations", pieces * w * moe.expert_ffn_size, Split.EXPERT, routed=True),
    ]
    if moe.shared_ffn_size:
        rows.append(Saved("shared_experts", "shared expert", _mlp_bytes(block) * moe.shared_ffn_size, Split.TENSOR))
    return rows


def _mlp_bytes(block: Block) -> int:
    """Gate, activated gate and up; a plain MLP keeps what its activation needs, not the frozen matrix's input."""
    architecture, numerics = block.architecture, block.numerics
    if architecture.gated_mlp:
        return (2 if numerics.fused else 3) * numerics.compute
    if architecture.activation == "gelu_new" and not numerics.fused_activation:
        return 14 if numerics.autocast else 4 * numerics.compute
    return numerics.compute


def _target_rows(block: Block, adapter: AdapterRows, attention_output: int) -> list[Saved]:
    """What the adapters' own matrices keep: their inputs and the low-rank projections."""
    numerics, rank, architecture = block.numerics, adapter.rank, block.architecture
    mla = architecture.mla
    widths = {"o_proj": attention_output, "down_proj": architecture.ffn_size}
    if mla is not None:
        widths |= {"q_b_proj": mla.q_lora_rank or 0, "kv_b_proj": mla.kv_lora_rank}
    one_input = architecture.parallel_block and architecture.norms_per_layer == 1
    rows: list[Saved] = []
    # A fused kernel's output is saved already as its own, unless the projection reads a copy of it.
    copied = block.habits.rotary_joins and kernel_of(block) == "flash"
    shared = {"o_proj"} if _keeps_output(block) and not copied else set()
    if architecture.activation == "relu" and not architecture.gated_mlp:
        shared.add("down_proj")  # what a ReLU keeps is what it answers
    for name in sorted(adapter.targets):
        width = widths.get(name, architecture.hidden_size)
        split = Split.TENSOR if name in widths else Split.GATHERED
        if numerics.autocast:
            rows.append(Saved("adapter", f"{name} input and projection", 2 * (width + rank), split))
        elif adapter.itemsize == 4 and numerics.compute == 2:
            rows.append(Saved("adapter", f"{name} fp32 input and projection", 4 * (width + rank), split))
        else:
            # A joint matrix is named by all it holds: q_proj+k_proj+v_proj.
            source = _INPUT_OF.get(name.partition("+")[0], name)
            source = "x" if source == "y" and one_input else source
            fresh = source not in shared
            shared.add(source)
            rows.append(Saved("adapter", f"{name} input", numerics.compute * (width * fresh + rank), split))
    return rows
