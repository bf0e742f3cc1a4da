"""What attention keeps for its backward, by kernel: flash, memory-efficient, plain math, or written out in Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from accounting.facts.families import habits_of
from accounting.memory.saved_rows import Block, Saved, Split
from accounting.units import Bytes, pad_to
from accounting.vocabulary import Attention

FLASH_MAX_HEAD_DIM = 256
MASK_ALIGNMENT = 8
"""Keys a mask's row is padded to. Source: torch 2.13 SDPA, memory-efficient kernel."""
STATISTICS_ALIGNMENT = 32
"""Queries the log-sum-exp's row is padded to. Source: as above."""


@dataclass(frozen=True, slots=True)
class Widths:
    """Elements per token that a kernel reads and writes."""

    query: int
    key: int
    value: int
    output: int
    kept_value: int
    """Width of the tensor that v is a view of."""


def kernel_of(block: Block) -> str:
    """`flash`, `efficient`, `math` or `eager`: what scaled-dot-product attention dispatches to (CUDA, sm80 and newer).

    Source: torch 2.13 SDPA chooser: flash takes 16-bit with head dim up to 256, equal widths and no mask;
    memory-efficient takes fp32 but no grouped heads.
    """
    architecture, habits = block.architecture, block.habits
    if block.attention is Attention.EAGER:
        return "eager"
    if block.numerics.fused or block.attention is Attention.FLASH:
        masked = unequal = False
    else:
        masked = habits.always_masked or habits.score_bias
        mla = architecture.mla
        unequal = mla is not None and mla.v_head_dim != mla.qk_nope_head_dim + mla.qk_rope_head_dim
    if block.numerics.compute == 2 and architecture.head_dim <= FLASH_MAX_HEAD_DIM and not masked and not unequal:
        return "flash"
    return "efficient" if _equal_heads(block) else "math"


def _equal_heads(block: Block) -> bool:
    architecture = block.architecture
    if architecture.mla is not None or architecture.heads == architecture.kv_heads:
        return True
    return not block.habits.grouped_kernel and architecture.kv_heads > 1


def attention_rows(block: Block, *, cross: bool = False) -> list[Saved]:
    """From the projections' input to the output projection's input; `cross`: keys come from an encoder."""
    if block.architecture.mla is not None:
        return latent_rows(block)
    architecture, numerics = block.architecture, block.numerics
    e, h = numerics.compute, architecture.hidden_size
    q, g = architecture.query_width, architecture.key_value_width
    copies = 3 if numerics.autocast and not block.habits.joint_projection else 1
    rows = [Saved("attention_input", "input of q, k, v", copies * e * h, Split.GATHERED)]
    if architecture.qk_norm:
        rows += [
            _head_norm(block, q, architecture.heads, "q norm", Split.TENSOR),
            _head_norm(block, g, architecture.kv_heads, "k norm", Split.KV),
        ]
    if numerics.modules and q == g:
        rows.append(Saved("qkv", "joined q, k, v that q is a view of", 2 * e * q, Split.TENSOR))
    return rows + core_rows(block, Widths(q, g, g, q, g), cross=cross)


def _head_norm(block: Block, width: int, heads: int, name: str, split: Split) -> Saved:
    """The norm of queries or keys: one row of statistics a head, or one where it spans all heads."""
    numerics, habits, architecture = block.numerics, block.habits, block.architecture
    copies = 8 if habits.norm_keeps_fp32 else 4 + numerics.compute
    rows = 1 if architecture.qk_norm_width == "full" else heads
    fixed = 4 * architecture.head_dim if habits.norm_weight_from_one else 0
    return Saved("attention_norm", name, copies * width + 4 * rows, split, fixed=fixed)


def core_rows(block: Block, widths: Widths, *, cross: bool = False) -> list[Saved]:
    """Scaled-dot-product attention: q, k, v, out and what the softmax keeps."""
    kernel = kernel_of(block)
    if kernel == "eager":
        return _eager_rows(block, widths)
    window = block.kind.window
    if block.attention is not Attention.SDPA or block.numerics.fused or window is None or cross:
        return _kernel_rows(block, widths, kernel, cross=cross)
    # A window no longer than the sequence makes SDPA take a mask, and the module repeat keys and values for it.
    masked = (block.sequence >= window).astype("int64")
    with_mask = [*_efficient_rows(block, _expanded(widths)), _mask(block)]
    return [*_times(_kernel_rows(block, widths, kernel), 1 - masked), *_times(with_mask, masked)]


def _times(rows: Iterable[Saved], chosen: Bytes) -> list[Saved]:
    return [replace(row, per_token=row.per_token * chosen, fixed=row.fixed * chosen) for row in rows]


def _expanded(widths: Widths) -> Widths:
    """Keys and values repeated to all heads, which leaves no view."""
    if widths.key == widths.query:
        return widths
    return replace(widths, key=widths.query, value=widths.output, kept_value=widths.output)


def _kernel_rows(block: Block, widths: Widths, kernel: str, *, cross: bool = False) -> list[Saved]:
    if kernel == "flash":
        return _flash_rows(block, widths)
    if kernel == "math":
        return _math_rows(block, widths)
    rows = _efficient_rows(block, _expanded(widths))
    if block.numerics.fused or block.attention is not Attention.SDPA:
        return rows
    if block.habits.score_bias and not cross:
        return [*rows, *_score_bias(block)]
    return [*rows, _mask(block)] if block.habits.always_masked else rows


def _flash_rows(block: Block, widths: Widths) -> list[Saved]:
    e, heads = block.numerics.compute, block.architecture.heads
    rows = [
        *_qkv(block, widths),
        Saved("core_attention_output", "attention output", e * widths.output, Split.TENSOR),
        Saved("core_attention", "log-sum-exp", 4 * heads, Split.TENSOR, fixed=24),
    ]
    if block.habits.rotary_joins:
        rows.append(Saved("core_attention_output", "output in token order", e * widths.output, Split.TENSOR))
    return rows


def _efficient_rows(block: Block, widths: Widths) -> list[Saved]:
    e, heads = block.numerics.compute, block.architecture.heads
    statistics = 4 * heads * block.micro_batch * pad_to(block.sequence, STATISTICS_ALIGNMENT)
    return [
        *_qkv(block, widths),
        Saved("core_attention_output", "attention output", e * widths.output, Split.TENSOR),
        Saved("core_attention", "log-sum-exp", 0, Split.TENSOR, fixed=statistics + 16),
    ]


def _math_rows(block: Block, widths: Widths) -> list[Saved]:
    heads, per_score = block.architecture.heads, 4 + (5 if block.score_dropout > 0 else 0)
    narrow = 0 if block.habits.grouped_kernel else _one_head(block, widths)
    return [
        Saved("qkv", "q, k, v expanded in fp32", 4 * (2 * widths.query + widths.output - narrow), Split.TENSOR),
        Saved("core_attention_output", "attention output", block.numerics.compute * widths.output, Split.TENSOR),
        Saved("core_attention", "softmax", per_score * heads * block.sequence, Split.TENSOR),
    ]


def _eager_rows(block: Block, widths: Widths) -> list[Saved]:
    e, heads = block.numerics.compute, block.architecture.heads
    name = "q, k, v, keys and values expanded to all heads"
    rows = [
        Saved("qkv", name, e * (2 * widths.query + widths.output - _one_head(block, widths)), Split.TENSOR),
        Saved("core_attention_output", "attention output", e * widths.output, Split.TENSOR),
        Saved("core_attention", "scores and softmax", _eager_score_bytes(block) * heads * block.sequence, Split.TENSOR),
    ]
    views = 0
    if block.habits.value_is_view and widths.key == widths.query and not _repeats(block):
        views = widths.query + widths.key
    elif widths.kept_value > widths.value and not block.numerics.fused:
        views = widths.kept_value - widths.value
    if views:
        # A batched product folds batch and heads: with one row of the batch v stays a view, with more it is copied.
        alone = (block.micro_batch == 1).astype("int64")
        rows.append(Saved("qkv", "joined projection that v is a view of", e * views * alone, Split.TENSOR))
    if block.architecture.attention_sinks and not block.numerics.fused:
        # The sink is one more column of the softmax; its maximum is kept as an index.
        column = 8 + (2, 4, 4)[block.column]
        rows.append(Saved("core_attention", "sinks", column * heads, Split.TENSOR))
    return rows


def _qkv(block: Block, widths: Widths) -> list[Saved]:
    e = block.numerics.compute
    rows = [
        Saved("qkv", "q", e * widths.query, Split.TENSOR),
        Saved("qkv", "k, v", e * (widths.key + widths.kept_value), Split.KV),
    ]
    if block.habits.value_is_view and not (_repeats(block) and widths.key == widths.query):
        rows.append(Saved("qkv", "joined q, k, v that v is a view of", e * (widths.query + widths.key), Split.TENSOR))
    return rows


def _one_head(block: Block, widths: Widths) -> Bytes:
    """Elements saved where a batch of one reads the only head of keys and values in place, without expanding it."""
    alone: Bytes = (block.micro_batch == 1).astype("int64")
    missing = widths.output - widths.value
    if not (block.numerics.autocast and block.habits.grouped_kernel):
        # Autocast casts the rotated keys after they are expanded.
        missing += widths.query - widths.key
    narrow: Bytes = alone * (missing if block.architecture.kv_heads == 1 else 0)
    return narrow


def _repeats(block: Block) -> bool:
    """Whether several query heads share a head of keys."""
    return block.architecture.heads != block.architecture.kv_heads


def _mask(block: Block) -> Saved:
    """An additive mask of a row per query."""
    row = block.numerics.compute * pad_to(block.sequence, MASK_ALIGNMENT)
    return Saved("core_attention", "additive mask", row, Split.WHOLE)


def _score_bias(block: Block) -> list[Saved]:
    """A bias per head and score, the same for every row of the batch; a decoder's causal mask is kept beside it."""
    architecture, sequence = block.architecture, block.sequence
    bias = block.numerics.compute * architecture.heads * sequence * pad_to(sequence, MASK_ALIGNMENT)
    causal = sequence * sequence if architecture.causal else 0
    return [Saved("core_attention", "position bias", 0, Split.TENSOR, fixed=bias + causal)]


def _eager_score_bytes(block: Block) -> int:
    """Bytes per score: softmax in the stream's dtype or in fp32 with a 16-bit copy; dropout adds a mask and a copy."""
    numerics = block.numerics
    dropped = block.score_dropout > 0
    cap = numerics.compute if block.architecture.attention_softcap else 0
    if numerics.compute == 4:
        return 4 + (5 if dropped else 0) + cap
    if _softmax_in_sixteen_bit(block):
        return 2 + (3 if dropped else 0) + cap
    return 6 + (1 if dropped else 0) + cap


def _softmax_in_sixteen_bit(block: Block) -> bool:
    """What `masked_softmax_fusion` says, else Megatron's upcast or the family's own habit."""
    numerics = block.numerics
    if block.options.masked_softmax_fusion is not None:
        return block.options.masked_softmax_fusion
    if numerics.upcasts:
        return False
    # Liger leaves the attention as Hugging Face writes it.
    own = block.habits if not numerics.liger else habits_of(block.architecture.family)
    return (numerics.fused and not numerics.liger) or (own.softmax_in_stream and not numerics.autocast)


def latent_rows(block: Block) -> list[Saved]:
    """Multi-head latent attention: the compressed inputs, their norms, and full-width q, k, v."""
    architecture, numerics = block.architecture, block.numerics
    mla = architecture.mla
    assert mla is not None
    e, h = numerics.compute, architecture.hidden_size
    copies = 2 if numerics.autocast else 1
    rows = [Saved("attention_input", "input of the down projections", copies * e * h, Split.GATHERED)]
    norm = numerics.residual if numerics.fused_norm else 4 + e
    if mla.q_lora_rank:
        rows.append(Saved("mla_up_proj", "q latent and its norm", (norm + e) * mla.q_lora_rank + 4, Split.SEQUENCE))
    # In fp32 the norm's input is no copy but a view of the projection's output, rotary part and all.
    rotary = e * mla.qk_rope_head_dim if e == 4 and not numerics.fused_norm else 0
    latent = (norm + e) * mla.kv_lora_rank + 4 + rotary
    rows.append(Saved("mla_up_proj", "kv latent and its norm", latent, Split.SEQUENCE))
    return rows + core_rows(block, latent_widths(block)) + _cropped(block)


def latent_widths(block: Block) -> Widths:
    """Keys and values of all heads: v is a view of the up projection's output, or padded where a kernel needs it."""
    mla, heads = block.architecture.mla, block.architecture.heads
    assert mla is not None
    head = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    value = heads * mla.v_head_dim
    if block.numerics.fused:
        return Widths(head, head, head, value, head)
    if block.attention is Attention.FLASH and kernel_of(block) == "flash":
        return Widths(head, head, head, head, head)
    return Widths(head, head, value, value, heads * (mla.qk_nope_head_dim + mla.v_head_dim))


def _cropped(block: Block) -> list[Saved]:
    """The output cut back to the width of v where the FlashAttention package had v padded."""
    mla, e = block.architecture.mla, block.numerics.compute
    assert mla is not None
    padded = mla.v_head_dim != mla.qk_nope_head_dim + mla.qk_rope_head_dim
    if block.numerics.fused or block.attention is not Attention.FLASH or kernel_of(block) != "flash" or not padded:
        return []
    width = e * block.architecture.heads * mla.v_head_dim
    return [Saved("core_attention_output", "output cut to the width of v", width, Split.TENSOR)]
