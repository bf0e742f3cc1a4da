"""Engine buffers inside the allocator: gathered units, reduce buckets, pipeline and context-parallel exchange."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accounting.facts.dtypes import itemsize
from accounting.facts.frameworks import DEEPSPEED, DeepSpeedDefaults
from accounting.ledger import (
    BACKWARD_LOSS,
    BACKWARD_MOMENTS,
    FIRST_BLOCK,
    FIRST_GATHER,
    FORWARD_BLOCK,
    FORWARD_LOSS,
    FORWARD_MOMENTS,
    LAST_BLOCK,
    NEXT_BLOCK,
    REDUCTION,
    ByMoment,
    Line,
    always,
)
from accounting.memory.context import Context
from accounting.memory.sharding import FSDP
from accounting.memory.states import full_gradients
from accounting.partition import LocalTensor
from accounting.units import Bytes, ceil_div
from accounting.vocabulary import Attention, Bucket, Engine, RecomputeMode

PARTITIONED_GRADIENTS, PARTITIONED_PARAMETERS = 2, 3
"""ZeRO stages by what they start to divide."""


def gathered_units(context: Context) -> ByMoment:
    """FSDP: unsharded units, their flat gather buffers, unsharded gradients and the reduce-scatter input.

    bytes = d·R (root) + up to 3·d·U in the forward; d·R + 2·d·U + r·U + d·U in the backward; all of d·P kept with
    reshard off (d compute bytes, r reduce bytes, U a block, R the root unit)

    Alive: forward, backward. Source: measured peaks of FSDP2 (activations §7); FSDP1's own limit of two gathers.
    """
    if context.recipe.engine not in FSDP or not context.has_activations:
        return {}
    gather = itemsize(context.recipe.precision.activations)
    reduce = itemsize(context.recipe.precision.reduce or context.recipe.precision.gradients or "fp32")
    unit, root = context.largest_block(context.gathered_bytes), context.unit_sum(-1, context.gathered_bytes)
    trained, root_trained = context.largest_block(trainable_elements), context.unit_sum(-1, trainable_elements)
    whole = _stays_gathered(context)
    layers = context.partition.layers
    resident = root + (unit * layers if whole else context.zero)
    prefetched = 0 if context.recipe.recompute.mode is RecomputeMode.FULL or whole else unit
    scattered = np.where(layers > 1, reduce * trained, 0)
    own = context.zero if whole else unit
    gradient, head_gradient = gather * trained, gather * context.head_elements
    early = gather * context.largest_block(_early_elements(context))
    alone = context.partition.shard_group == 1
    if context.wraps_vocabulary:
        return _vocabulary_apart(context, unit, early, scattered, gradient)
    moments = {
        FIRST_GATHER: 2 * (root + unit),
        FORWARD_BLOCK: resident + (2 * unit if whole else 3 * unit),
        FORWARD_LOSS: resident + own,
        BACKWARD_LOSS: resident + own,
        LAST_BLOCK: resident + head_gradient + 2 * own + early,
        NEXT_BLOCK: resident + head_gradient + 2 * own + scattered + early,
        FIRST_BLOCK: resident + head_gradient + own + prefetched + scattered + gradient,
        # The root unit gives its gathered parameters back before its gradients travel.
        REDUCTION: gather * root_trained + np.where(alone, 0, reduce * root_trained),
    }
    return {moment: amount + context.zero for moment, amount in moments.items()}


def _vocabulary_apart(context: Context, unit: Bytes, early: Bytes, scattered: Bytes, gradient: Bytes) -> ByMoment:
    """Gathered units where the embedding and the head are units beside the blocks: none of them stays resident."""
    gather = itemsize(context.recipe.precision.activations)
    reduce = itemsize(context.recipe.precision.reduce or context.recipe.precision.gradients or "fp32")
    embedding, head = (context.unit_sum(-1, _gathered_of(context, word)) for word in ("embed_tokens", "lm_head"))
    root_trained = context.unit_sum(-1, trainable_elements)
    first = root_trained - context.head_elements
    whole = unit * context.partition.layers if _stays_gathered(context) else context.zero
    own = context.zero if _stays_gathered(context) else unit
    moments = {
        FIRST_GATHER: 2 * (embedding + unit),
        FORWARD_BLOCK: whole + (2 * unit if _stays_gathered(context) else 3 * unit),
        FORWARD_LOSS: whole + head + own,
        BACKWARD_LOSS: whole + head + own + gather * context.head_elements,
        LAST_BLOCK: whole + reduce * context.head_elements + 2 * own + early,
        NEXT_BLOCK: whole + 2 * own + scattered + early,
        FIRST_BLOCK: whole + own + embedding + scattered + gradient,
        REDUCTION: (gather + reduce) * first,
    }
    return {moment: amount + context.zero for moment, amount in moments.items()}


def _gathered_of(context: Context, word: str) -> Callable[[LocalTensor], Bytes | int]:
    """Gathered bytes of the tensors that hold one logical matrix."""

    def of(item: LocalTensor) -> Bytes | int:
        return context.gathered_bytes(item) if word in item.tensor.words else 0

    return of


def trainable_elements(item: LocalTensor) -> Bytes | int:
    """Elements of a tensor that get a gradient."""
    return item.elements if item.tensor.trainable else 0


def _early_elements(context: Context) -> Callable[[LocalTensor], Bytes | int]:
    """Which gradients of a block are there at the worst moment of its backward: the MLP's last matrix, or with scores
    written out all but those of queries, keys and values. Source: activations §5."""
    written_out = context.recipe.attention is Attention.EAGER

    def early(item: LocalTensor) -> Bytes | int:
        if written_out:
            there = item.tensor.role != "attention" or "o_proj" in item.tensor.words
        else:
            there = "down_proj" in item.tensor.words
        return trainable_elements(item) if there else 0

    return early


def _stays_gathered(context: Context) -> bool:
    """Reshard off: FSDP1's SHARD_GRAD_OP, FSDP2's reshard_after_forward=False."""
    option = context.recipe.options.reshard_after_forward
    return context.recipe.zero_stage == PARTITIONED_GRADIENTS if option is None else not option


def reduce_buckets(context: Context) -> ByMoment:
    """DDP's reducer buckets, or DeepSpeed's reduce (IPG) buckets of fixed size.

    DDP: one more copy of all gradients unless gradients are views of the buckets, with more than one replica.
    DeepSpeed: reduce_bucket_size elements · bytes (· 2 with overlap_comm), whatever the model; stage 3 from init on.

    Alive: always under DDP and stage 3, else backward. Source: measured (optimizers, Sharding); DeepSpeed#1302.
    """
    recipe, options = context.recipe, context.recipe.options
    if recipe.engine is Engine.DDP:
        if options.gradient_as_bucket_view or recipe.optimizer.frees_gradients or recipe.options.optimizer_in_backward:
            return {}
        return always(
            np.where(context.partition.replicate_group * context.partition.shard_group > 1, full_gradients(context), 0)
        )
    if recipe.engine is not Engine.DEEPSPEED or not context.has_activations:
        return {}
    size = options.reduce_bucket_size or DEEPSPEED.reduce_bucket_size
    bytes_each = itemsize(recipe.precision.gradients or recipe.precision.parameters)
    if recipe.zero_stage == PARTITIONED_PARAMETERS:
        return always(size * itemsize(recipe.precision.parameters) * np.ones(context.partition.shape, dtype=np.int64))
    if recipe.zero_stage == 0:
        return {}
    twice = 2 if (DEEPSPEED.overlap_comm if options.overlap_comm is None else options.overlap_comm) else 1
    bucket = context.zero + size * min(bytes_each, itemsize(recipe.precision.activations)) * twice
    return dict.fromkeys(BACKWARD_MOMENTS, bucket)


def live_parameters(context: Context) -> ByMoment:
    """DeepSpeed stage 3: gathered parameters that stay resident, prefetched ones, and the flat gather buffer.

    elements = max(min(parameters, stage3_max_live_parameters, stage3_max_reuse_distance), largest block) + prefetch
    bucket; small parameters stay gathered for good

    Alive: forward, backward. Source: DeepSpeed partitioned_param_coordinator; DeepSpeed#4093.
    """
    recipe = context.recipe
    if recipe.engine is not Engine.DEEPSPEED or recipe.zero_stage != PARTITIONED_PARAMETERS:
        return {}
    return dict.fromkeys((*FORWARD_MOMENTS, *BACKWARD_MOMENTS), live_set_bytes(context))


def live_set_bytes(context: Context) -> Bytes:
    """Gathered weights of DeepSpeed stage 3 at any one time. [byte, (N, S)]"""
    recipe, options = context.recipe, context.recipe.options
    defaults: DeepSpeedDefaults = DEEPSPEED
    elements = context.partition.elements()
    limit = min(
        options.stage3_max_live_parameters or defaults.max_live_parameters,
        options.stage3_max_reuse_distance or defaults.max_reuse_distance,
    )
    prefetch = options.stage3_prefetch_bucket_size or defaults.prefetch_bucket_size
    largest = context.block_elements
    for item in context.partition.local:
        if item.unit == -1:
            largest = np.maximum(largest, np.where(item.copies > 0, item.elements, 0))
    live = np.maximum(np.minimum(elements, limit), largest)
    gathered: Bytes = np.minimum(live + prefetch, elements) * itemsize(recipe.precision.activations)
    return gathered


def persistent_parameters(context: Context) -> ByMoment:
    """DeepSpeed stage 3: tensors below the persistence threshold stay gathered.

    bytes = sum of (padded) tensors with at most stage3_param_persistence_threshold elements · bytes

    Alive: always. Source: measured (optimizers, Sharding).
    """
    recipe = context.recipe
    if recipe.engine is not Engine.DEEPSPEED or recipe.zero_stage != PARTITIONED_PARAMETERS:
        return {}
    given = recipe.options.stage3_param_persistence_threshold
    threshold = DEEPSPEED.param_persistence_threshold if given is None else given
    total = context.zero
    for item in context.trainable:
        group = context.partition.shard_group
        kept: Bytes = ceil_div(item.elements, group) * group * (item.elements <= threshold)
        total = total + kept * item.copies
    return always(total * itemsize(recipe.precision.parameters))


def pipeline_exchange(context: Context) -> ByMoment:
    """Send and receive buffers between pipeline stages.

    bytes = 2 · bytes of an activation · tokens · hidden / (tp under sequence parallelism), where pp > 1

    Alive: forward and backward. Source: Megatron-Core p2p_communication.
    """
    architecture = context.recipe.model.architecture
    if architecture is None:
        return {}
    ways = np.where(context.layout.sequence_parallel, context.layout.tp, 1)
    one = ceil_div(context.partition.tokens * context.numerics.compute * architecture.hidden_size, ways)
    held = 2 * one * (context.layout.pp > 1) * context.partition.active
    return dict.fromkeys((FORWARD_BLOCK, FORWARD_LOSS, *BACKWARD_MOMENTS), held)


def context_exchange(context: Context) -> ByMoment:
    """Keys and values of other context-parallel ranks.

    Ring: two chunks of k and v (one computed, one arriving). All-gather: k and v of the whole sequence. All-to-all:
    a second copy of q, k and v.

    Alive: the block moments. Source: Megatron-Core context parallel; DeepSpeed Ulysses.
    """
    architecture = context.recipe.model.architecture
    if architecture is None:
        return {}
    e, tp = context.numerics.compute, context.layout.tp
    q = architecture.heads * architecture.head_dim
    pair = 2 * architecture.kv_heads * architecture.head_dim
    tokens, cp = context.partition.tokens, context.layout.cp
    style = context.recipe.options.cp_comm_type or "p2p"
    widths: dict[str, Bytes | int] = {
        "p2p": 2 * pair,
        "all_gather": pair * cp,
        "a2a": q + pair,
        "a2a+p2p": q + 2 * pair,
    }
    held = np.where(cp > 1, ceil_div(tokens * e * widths[style], tp), 0) * context.partition.active
    return dict.fromkeys((FORWARD_BLOCK, LAST_BLOCK, NEXT_BLOCK, FIRST_BLOCK), held)


def megatron_units(context: Context) -> ByMoment:
    """Megatron's own FSDP (stages 2, 3): two units of gathered weights and two of unsharded main gradients.

    bytes = 2 · U · bytes of a weight (stage 3) + 2 · U · bytes of a gradient

    Alive: forward, backward. Source: Megatron-FSDP double buffers; Megatron-LM#6314.
    """
    recipe = context.recipe
    if recipe.engine is not Engine.MEGATRON or recipe.zero_stage < PARTITIONED_GRADIENTS:
        return {}
    unit = np.maximum(context.block_elements, context.root_elements)
    weights = (
        2 * unit * itemsize(recipe.precision.parameters)
        if recipe.zero_stage == PARTITIONED_PARAMETERS
        else context.zero
    )
    grads = 2 * unit * itemsize(recipe.precision.gradients or "fp32")
    return dict.fromkeys(FORWARD_MOMENTS, weights) | dict.fromkeys(BACKWARD_MOMENTS, weights + grads)


BUFFER_LINES: tuple[Line, ...] = (
    Line("buffers.gathered_units", Bucket.COMMUNICATION_BUFFERS, gathered_units),
    Line("buffers.reduce_buckets", Bucket.COMMUNICATION_BUFFERS, reduce_buckets),
    Line("buffers.live_parameters", Bucket.COMMUNICATION_BUFFERS, live_parameters),
    Line("buffers.persistent_parameters", Bucket.COMMUNICATION_BUFFERS, persistent_parameters),
    Line("buffers.megatron_units", Bucket.COMMUNICATION_BUFFERS, megatron_units),
    Line("buffers.pipeline_exchange", Bucket.COMMUNICATION_BUFFERS, pipeline_exchange),
    Line("buffers.context_exchange", Bucket.COMMUNICATION_BUFFERS, context_exchange),
)
