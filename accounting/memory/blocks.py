"""Bytes one block keeps for its backward on a rank, what recomputation leaves of it, its backward's own working set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accounting.facts.dtypes import itemsize
from accounting.facts.families import habits_of
from accounting.memory.numerics import Numerics
from accounting.memory.saved import GEMMA_FAMILIES, activation_bytes, block_rows
from accounting.memory.saved_adapter import adapter_rows
from accounting.memory.saved_attention import kernel_of
from accounting.memory.saved_litgpt import litgpt_rows
from accounting.memory.saved_rows import AdapterRows, Block, Saved, Split
from accounting.model.tensors import LayerKind, Tensor
from accounting.partition import Partition
from accounting.scenario import Layout, Recipe
from accounting.units import Bytes, ceil_div
from accounting.vocabulary import RecomputeMode

WHOLE_BASES = ("fp32", "bf16", "fp16")
"""What a frozen base rests in without quantisation."""
MODULE_ALIASES: dict[str, tuple[str, ...]] = {
    "core_attn": ("core_attention",),
    "core_attention": ("core_attention",),
    "attention": ("attention_input", "attention_norm", "qkv", "core_attention", "core_attention_output", "mla_up_proj"),
    "mlp": ("mlp", "mlp_input"),
    "mlp_act": ("mlp",),
    "moe": ("moe", "router", "shared_experts", "mlp_input"),
    "moe_act": ("moe",),
    "shared_experts": ("shared_experts",),
    "layernorm": ("layernorm",),
    "mla_up_proj": ("mla_up_proj", "qkv"),
}
"""Names of Megatron-Core's `recompute_modules` and of the saved rows they free."""


@dataclass(frozen=True, slots=True)
class BlockBytes:
    """One block of one kind on a rank, (N, 1) each."""

    full: Bytes
    """Everything autograd keeps without recomputation."""
    kept: Bytes
    """What stays alive between the block's forward and backward under the recipe's recomputation."""
    boundary: Bytes
    """The block's input alone: what full recomputation keeps."""
    working_set: Bytes
    """Gradients of activations that live while the block's backward runs."""
    weight_copies: Bytes
    """16-bit copies of fp32 weights that autocast keeps until the backward has used them."""


def divided(
    row: Saved, partition: Partition, layout: Layout, routed_tokens: Bytes, numerics: Numerics, kv_heads: int
) -> Bytes:
    """Bytes of one saved tensor on a rank. [byte, (N, 1)]"""
    tokens = routed_tokens if row.routed else partition.tokens
    sequence_ways = np.where(layout.sequence_parallel, layout.tp, 1)
    ways = {
        Split.SEQUENCE: sequence_ways,
        Split.GATHERED: np.ones_like(layout.tp) if numerics.gathered_whole else sequence_ways,
        Split.TENSOR: layout.tp,
        Split.KV: np.minimum(layout.tp, kv_heads),
        Split.EXPERT: layout.etp,
        Split.WHOLE: np.ones_like(layout.tp),
    }[row.split]
    return ceil_div(tokens * row.per_token + row.fixed, ways)


def block_of(recipe: Recipe, layout: Layout, kind_index: int, numerics: Numerics) -> Block:
    """What the rows of one kind of block read."""
    kind = recipe.inventory.kinds[kind_index]
    architecture = recipe.model.architecture
    assert architecture is not None
    if kind.encoder and architecture.encoder is not None:
        architecture = architecture.encoder
    stated = recipe.options.dropout
    scores = habits_of(architecture.family).score_dropout or numerics.fused
    return Block(
        architecture=architecture,
        kind=kind,
        numerics=numerics,
        attention=recipe.attention,
        options=recipe.options,
        sequence=layout.sequence_length,
        micro_batch=layout.micro_batch_size,
        dropout=architecture.dropout if stated is None else stated,
        score_dropout=(architecture.attention_dropout if stated is None else stated) * scores,
        adapter=_adapter_of(recipe, kind),
        whole_base=recipe.adapter is None or recipe.adapter.base_dtype == "fp32",
    )


def _rows(block: Block) -> list[Saved]:
    """Every tensor a block saves: of a model that trains whole, or of adapters on a frozen base."""
    if block.adapter is None:
        return block_rows(block)
    return (litgpt_rows if block.numerics.litgpt else adapter_rows)(block, block.adapter)


def _adapter_of(recipe: Recipe, kind: LayerKind) -> AdapterRows | None:
    """Which matrices of a block carry an adapter, from the tensors that were added to it."""
    if recipe.adapter is None:
        return None
    words = frozenset(word for tensor in kind.tensors if tensor.adapter for word in tensor.words)
    quantised = recipe.adapter.base_dtype not in WHOLE_BASES
    return AdapterRows(words, recipe.adapter.rank, itemsize(recipe.precision.parameters), quantised)


def routed_tokens(recipe: Recipe, partition: Partition, layout: Layout) -> Bytes:
    """Tokens the busiest expert-parallel rank receives in a micro-batch, times experts per token. [(N, 1)]

    Tokens enter divided by tp under sequence parallelism with more than one expert rank; balanced routing gives every
    rank as many as it sends, times the imbalance. Source: Megatron-Core token dispatchers.
    """
    architecture = recipe.model.architecture
    moe = architecture.moe if architecture else None
    if moe is None:
        return partition.tokens
    own = np.where(layout.sequence_parallel, ceil_div(partition.tokens, layout.tp), partition.tokens) * layout.etp
    own = np.where(layout.sequence_parallel, own, partition.tokens)
    busiest: Bytes = np.ceil(own * (moe.top_k * recipe.options.expert_imbalance)).astype(np.int64)
    return busiest


def block_bytes(
    recipe: Recipe, partition: Partition, layout: Layout, kind_index: int, numerics: Numerics
) -> BlockBytes:
    """Saved bytes of one block: all of them, and what the recipe's recomputation keeps."""
    block = block_of(recipe, layout, kind_index, numerics)
    routed = routed_tokens(recipe, partition, layout)
    amounts = [
        (row, divided(row, partition, layout, routed, numerics, block.architecture.kv_heads)) for row in _rows(block)
    ]
    zero = np.zeros_like(partition.tokens)
    if recipe.options.tiled_mlp_compute:
        tiles = np.maximum(ceil_div(partition.tokens, block.architecture.hidden_size), 1)
        amounts = [(row, ceil_div(amount, tiles) if row.module == "mlp" else amount) for row, amount in amounts]
    copies = _weight_copies(recipe, partition, kind_index, numerics)
    full = sum((amount for _, amount in amounts), zero)
    sequence_ways = np.where(layout.sequence_parallel, layout.tp, 1)
    # Over a frozen 16-bit base autocast leaves the stream in 16 bit.
    stream = numerics.residual if block.whole_base else numerics.compute
    boundary = ceil_div(partition.tokens * stream * block.architecture.hidden_size, sequence_ways)
    recompute = recipe.recompute
    if recompute.mode is RecomputeMode.FULL:
        kept = boundary
    elif recompute.mode is RecomputeMode.SELECTIVE:
        kept = _selective(recipe, partition, layout, block, amounts, boundary)
    else:
        kept = full
    return BlockBytes(full, kept, boundary, working_set(block, partition, layout), copies)


def _selective(
    recipe: Recipe,
    partition: Partition,
    layout: Layout,
    block: Block,
    amounts: list[tuple[Saved, Bytes]],
    boundary: Bytes,
) -> Bytes:
    """Under torch's operator policy the outputs of matrix products stay; under Megatron's the chosen modules go."""
    zero = np.zeros_like(partition.tokens)
    if recipe.options.selective_ac_option == "op":
        return boundary + ceil_div(partition.tokens * _operator_policy(block), layout.tp)
    names = recipe.options.recompute_modules or recipe.recompute.modules or ("core_attn",)
    dropped = {module for name in names for module in MODULE_ALIASES.get(name, (name,))}
    return sum((amount for row, amount in amounts if row.module not in dropped), zero)


def _operator_policy(block: Block) -> int:
    """Bytes per token kept by torchtitan's list: every second matrix product's output, and fused attention's.

    Source: measured live bytes of selective checkpointing (activations §4).
    """
    architecture, e = block.architecture, block.numerics.compute
    h, f = architecture.hidden_size, architecture.ffn_size
    q, g = architecture.heads * architecture.head_dim, architecture.kv_heads * architecture.head_dim
    if block.kind.mixture and architecture.moe is not None:
        outputs = [q, g, g, h, architecture.moe.experts]
    elif architecture.gated_mlp:
        outputs = [q, g, g, h, f, f, h]
    elif block.habits.joint_projection:
        outputs = [q + 2 * g, h, f, h]
    else:
        outputs = [q, g, g, h, f, h]
    attention = 0 if kernel_of(block) in ("math", "eager") else e * q + 4 * architecture.heads
    return e * sum(outputs[::2]) + attention


def _is_cast(tensor: Tensor, recipe: Recipe) -> bool:
    """Whether autocast copies a weight: fp32 ones of plain matrix products, the router's and the adapters' too."""
    matrix = len(tensor.shape) > 1
    if tensor.adapter:
        return matrix
    stored_whole = recipe.adapter is None or recipe.adapter.base_dtype == "fp32"
    return stored_whole and matrix and (tensor.role == "router" or (tensor.linear and not tensor.expert))


def _weight_copies(recipe: Recipe, partition: Partition, kind_index: int, numerics: Numerics) -> Bytes:
    """2 bytes per matrix weight of the block under autocast (experts' grouped products are not cast). [byte, (N, 1)]"""
    zero = np.zeros_like(partition.tokens)
    if not numerics.autocast:
        return zero
    return zero + sum(
        (
            _copy_size(item.tensor, recipe) * item.elements * item.tensor.count
            for item in partition.local
            if item.unit == kind_index
        ),
        zero,
    )


def _copy_size(tensor: Tensor, recipe: Recipe) -> int:
    """Bytes an element of autocast's copy of a weight: LayerNorm runs in fp32, so a 16-bit base's is raised."""
    architecture, adapter = recipe.model.architecture, recipe.adapter
    if tensor.role == "norm" and architecture is not None and architecture.norm == "layernorm":
        return 4 if adapter is not None and adapter.base_dtype != "fp32" else 0
    return 2 if _is_cast(tensor, recipe) else 0


# Bytes per (ffn unit, hidden unit) and token of the MLP moment of a block's backward: 16-bit, autocast, fp32.
_MLP_MOMENT = {
    "gated": ((4, 4), (4, 8), (8, 8)),
    "plain": ((2, 4), (2, 10), (4, 8)),
    "gelu_new": ((4, 4), (12, 8), (8, 8)),
    "bert": ((2, 2), (2, 6), (4, 4)),
    "gemma": ((4, -4), (4, 0), (8, 0)),
}
_GEMMA_FLOOR = (20, 24, 24)
# Bytes per (score, hidden unit) and token of the attention moment with materialised scores.
_SCORE_MOMENT = {
    "stream": ((4, -2), (6, 0), (8, -4)),
    "upcast": ((6, -6), (6, -6), (8, -8)),
    "gemma": ((6, -24), (6, -22), (8, -24)),
    # Megatron's fused scale-mask-softmax writes its gradient over the one it is given.
    "in_place": ((2, -2), (2, 0), (4, -4)),
}


def working_set(block: Block, partition: Partition, layout: Layout) -> Bytes:
    """Activation gradients alive inside one block's backward, beyond its saved tensors. [byte, (N, 1)]

    The larger of the MLP moment and, with materialised scores, the attention moment, after whose start the MLP's own
    saved tensors are gone. Source: measured peaks (activations §5, table of Y).
    """
    architecture, numerics = block.architecture, block.numerics
    column = 2 if numerics.compute == 4 else 1 if numerics.autocast else 0
    h = architecture.hidden_size
    gemma = architecture.family in GEMMA_FAMILIES
    per_ffn, per_hidden = _MLP_MOMENT[_mlp_law(block)][column]
    if numerics.liger and architecture.gated_mlp:
        # The gradients of gate and up overwrite the saved tensors: only the product's is new.
        per_ffn = per_ffn // 2
    width = architecture.ffn_size
    if block.kind.mixture and architecture.moe is not None:
        width = architecture.moe.expert_ffn_size * architecture.moe.top_k + architecture.moe.shared_ffn_size
        per_ffn, per_hidden = ((4, 20), (8, 28), (8, 28))[column]
    ways = np.maximum(layout.tp, 1)
    if block.options.tiled_mlp_compute:
        # One tile of about `hidden` tokens at a time. Source: ArcticTraining TiledMLP.
        ways = ways * np.maximum(ceil_div(partition.tokens, h), 1)
    sequence_ways = np.where(layout.sequence_parallel, layout.tp, 1)
    moment = ceil_div(partition.tokens * per_ffn * width, ways) + ceil_div(
        partition.tokens * per_hidden * h, sequence_ways
    )
    if gemma:
        moment = np.maximum(moment, partition.tokens * _GEMMA_FLOOR[column] * h)
    if kernel_of(block) not in ("eager", "math"):
        return moment
    per_score, per_hidden = _SCORE_MOMENT[_score_law(block)][column]
    scores = ceil_div(partition.tokens * per_score * architecture.heads * block.sequence, layout.tp)
    freed = ceil_div(partition.tokens * activation_bytes(block) * width, ways)
    larger: Bytes = np.maximum(moment, scores + ceil_div(partition.tokens * per_hidden * h, sequence_ways) - freed)
    return larger


def _score_law(block: Block) -> str:
    if block.numerics.megatron_deepspeed:
        return "in_place"
    if block.architecture.family in GEMMA_FAMILIES:
        return "gemma"
    return "stream" if block.habits.softmax_in_stream else "upcast"


def _mlp_law(block: Block) -> str:
    architecture = block.architecture
    if architecture.family in GEMMA_FAMILIES:
        return "gemma"
    if architecture.gated_mlp:
        return "gated"
    if architecture.family in ("bert", "roberta"):
        return "bert"
    return "gelu_new" if architecture.activation == "gelu_new" and not block.numerics.fused_activation else "plain"
