"""What a block of LitGPT saves under adapters: one joint projection, dropout before every adapter, and over a quantised
base the inputs that bitsandbytes up to 0.42 keeps though nothing needs them.

Source: saved tensors of litgpt's modules (hooks deduplicated by storage); bitsandbytes 0.42 MatMul4Bit, which is the
version litgpt takes.
"""

from __future__ import annotations

from accounting.memory.saved_adapter import inner_norms, stream_norms
from accounting.memory.saved_rows import AdapterRows, Block, Saved, Split

JOINT = frozenset({"q_proj", "k_proj", "v_proj"})
MASK_BYTE = 1
"""CUDA's dropout keeps a byte an element."""


def litgpt_rows(block: Block, adapter: AdapterRows) -> list[Saved]:
    """Saved tensors of one block whose base is frozen."""
    # Its GELU is one kernel, whichever form.
    per_unit = (3 if block.architecture.gated_mlp else 1) * block.numerics.compute
    mlp = Saved("mlp", "MLP activations", per_unit * block.architecture.ffn_size, Split.TENSOR)
    rows = [*stream_norms(block), *inner_norms(block), *_attention(block), mlp, *_target_rows(block, adapter)]
    return rows + (_quantised_inputs(block) if adapter.quantised else [])


def _attention(block: Block) -> list[Saved]:
    """Flash attention on rotated copies of q and k; v is a view of the joint projection unless heads share it."""
    architecture, e = block.architecture, block.numerics.compute
    q, g = architecture.query_width, architecture.key_value_width
    if q != g:
        held = [Saved("qkv", "q, k, v, keys and values expanded to all heads", 3 * e * q, Split.TENSOR)]
    else:
        rotated = 0 if architecture.learned_positions else q + g
        held = [Saved("qkv", "joint projection and rotated q, k", e * (q + 2 * g + rotated), Split.TENSOR)]
    return [
        *held,
        Saved("core_attention_output", "attention output", e * q, Split.TENSOR),
        Saved("core_attention", "log-sum-exp", 4 * architecture.heads, Split.TENSOR, fixed=24),
    ]


def _target_rows(block: Block, adapter: AdapterRows) -> list[Saved]:
    """Per target: the dropped input, its mask and the low-rank projection; q, k, v share one adapter input."""
    architecture, e, rank = block.architecture, block.numerics.compute, adapter.rank
    h, q, g = architecture.hidden_size, architecture.query_width, architecture.key_value_width
    rows = []
    joint = JOINT & adapter.targets
    if joint:
        widths = {"q_proj": q, "k_proj": g, "v_proj": g}
        # Left-out parts are padded with zeros, and what is placed between them is kept.
        placed = 0 if joint == JOINT else sum(widths[name] for name in joint)
        kept = (e + MASK_BYTE) * h + e * (rank * len(joint) + placed)
        rows.append(Saved("adapter", "q, k, v: dropped input, mask, projection", kept, Split.TENSOR))
    inputs = {"o_proj": q, "down_proj": architecture.ffn_size}
    for name in sorted(adapter.targets - JOINT):
        kept = (e + MASK_BYTE) * inputs.get(name, h) + e * rank
        rows.append(Saved("adapter", f"{name}: dropped input, mask, projection", kept, Split.TENSOR))
    return rows


def _quantised_inputs(block: Block) -> list[Saved]:
    """Inputs of the frozen 4-bit matrices, one per distinct tensor; the output projection's is a copy."""
    architecture, e = block.architecture, block.numerics.compute
    h, q, f = architecture.hidden_size, architecture.query_width, architecture.ffn_size
    alone = architecture.parallel_block and architecture.norms_per_layer == 1
    return [
        Saved("adapter", "inputs of the 4-bit matrices", e * ((1 if alone else 2) * h + q + f), Split.TENSOR),
    ]
