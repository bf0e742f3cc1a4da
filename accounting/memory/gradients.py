"""Gradients as each engine holds them between the first backward and the optimizer step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.facts.dtypes import itemsize
from accounting.ledger import (
    BACKWARD_LOSS,
    BACKWARD_MOMENTS,
    FIRST_BLOCK,
    FIRST_GATHER,
    FORWARD_BLOCK,
    FORWARD_LOSS,
    LAST_BLOCK,
    LOAD,
    NEXT_BLOCK,
    REDUCTION,
    STEP,
    ByMoment,
    always,
)
from accounting.memory.context import Context
from accounting.memory.flat import touched_elements
from accounting.memory.sharding import FSDP, Cut, stored_elements, whole_pieces
from accounting.units import Bytes, share_of
from accounting.vocabulary import Engine, Place

_HALF = 2


def gradients(context: Context) -> ByMoment:
    """Gradients as they accumulate, in the accumulation dtype.

    bytes = elements on the rank · bytes of the gradient dtype / (shard group where the stage shards gradients).
    DeepSpeed stages 1, 2 keep the whole gradient of every tensor that reaches into the rank's partition.

    Alive: from a block's backward to the step; always where the engine keeps flat buffers, and through the forward
    when micro-batches accumulate. Optimizer in backward: the largest tensor. Source: measured per engine.
    """
    recipe = context.recipe
    if recipe.optimizer.frees_gradients or recipe.options.optimizer_in_backward:
        size = itemsize(gradient_dtype(context) or recipe.precision.parameters)
        return dict.fromkeys((*BACKWARD_MOMENTS, STEP), context.partition.largest_tensor() * size)
    if gradients_on_host(context):
        return {}
    if bf16_optimizer(context):
        return _bf16_optimizer(context)
    final = full_gradients(context)
    if gradients_persist(context):
        return always(final, but={LOAD: 0} if recipe.engine is Engine.DDP else None)
    return _growing(context, final, unreduced(context))


def gradient_dtype(context: Context) -> str | None:
    """What gradients accumulate in: DeepSpeed's own knob over the recipe's."""
    recipe = context.recipe
    if recipe.engine is Engine.DEEPSPEED and recipe.options.grad_accum_dtype is not None:
        return recipe.options.grad_accum_dtype
    return recipe.precision.gradients


def full_gradients(context: Context) -> Bytes:
    """Gradient bytes of a rank when the optimizer steps. [byte, (N, S)]"""
    dtype = gradient_dtype(context)
    if dtype is None or context.law.cut is not Cut.FLAT:
        return context.held_bytes(divided=context.law.gradients, dtype=dtype)
    if bf16_optimizer(context):
        return _flat_whole(context) * itemsize(dtype) + _sixteen_bit(context)
    if _accumulates_wider(context):
        return context.held_bytes(divided=True, dtype=dtype)
    elements = context.zero
    for order in context.flat_orders:
        elements = elements + touched_elements(order, context.shard_rank)[0]
    known = elements > 0
    return np.where(known, elements * itemsize(dtype), context.held_bytes(divided=True, dtype=dtype))


def fullest_rank(context: Context) -> Bytes:
    """Rank of the shard group that holds most: by gradients under DeepSpeed stages 1 and 2, else the first. [(N, S)]"""
    if context.law.cut is not Cut.FLAT or _accumulates_wider(context) or gradients_on_host(context):
        return context.zero
    return touched_elements(context.flat_orders[0], None)[1] if context.flat_orders else context.zero


def unreduced(context: Context) -> Bytes:
    """Gradient bytes between micro-batches: whole where nothing is reduced until the last. [byte, (N, S)]"""
    recipe, dtype = context.recipe, gradient_dtype(context)
    late = recipe.options.no_sync and recipe.engine in FSDP
    # Stage 1 reduces at the boundary of accumulation, stage 2 at every micro-batch.
    late = late or (recipe.engine is Engine.DEEPSPEED and recipe.zero_stage == 1)
    if late and dtype is not None:
        return stored_elements(whole_pieces(context.trainable), context.partition.shape) * itemsize(dtype)
    return full_gradients(context)


def gradients_persist(context: Context) -> bool:
    """Flat buffers that outlive the step: Megatron's, DeepSpeed stage 3's, those of a master-weight optimizer."""
    recipe = context.recipe
    if recipe.engine is Engine.DEEPSPEED:
        return recipe.zero_stage == 3  # noqa: PLR2004
    if recipe.engine is Engine.DDP:
        return recipe.precision.master_weights is not None
    return recipe.engine in (Engine.MEGATRON, Engine.IDEAL)


def gradients_on_host(context: Context) -> bool:
    """Whether gradients rest beside offloaded states: FSDP's CPU offload, DeepSpeed's optimizer offload."""
    offload = context.recipe.offload
    return fsdp_offload(context) or (context.recipe.engine is Engine.DEEPSPEED and offload.optimizer is not Place.NONE)


def fsdp_offload(context: Context) -> bool:
    """FSDP's CPU offload moves parameters, gradients and the step together."""
    offload = context.recipe.offload
    return context.recipe.engine in FSDP and Place.CPU in (offload.parameters, offload.optimizer)


def bf16_optimizer(context: Context) -> bool:
    """DeepSpeed's BF16_Optimizer: bf16 weights, stage 1, fp32 accumulation."""
    recipe = context.recipe
    if recipe.engine is not Engine.DEEPSPEED or recipe.zero_stage != 1:
        return False
    return recipe.precision.parameters == "bf16" and _accumulates_wider(context)


def _accumulates_wider(context: Context) -> bool:
    dtype = gradient_dtype(context)
    return dtype is not None and itemsize(dtype) > itemsize(context.recipe.precision.parameters)


def _flat_whole(context: Context) -> Bytes:
    return stored_elements(context.stored(divided=False), context.partition.shape)


def _sixteen_bit(context: Context) -> Bytes:
    return _HALF * stored_elements(whole_pieces(context.trainable), context.partition.shape)


def _bf16_optimizer(context: Context) -> ByMoment:
    """An unsharded fp32 buffer for good, beside the 16-bit gradients of the backward."""
    sixteen = _sixteen_bit(context)
    buffer = _flat_whole(context) * itemsize(gradient_dtype(context) or "fp32")
    growing = _growing(context, sixteen, context.zero)
    return {moment: buffer + growing.get(moment, 0) for moment in always(0)}


def _zeroed(context: Context) -> NDArray[np.bool_]:
    """Where gradients of the last step are filled with zeros and kept: PyTorch 1 on cards of its time. [(N, 1)]"""
    return context.old_software & (context.recipe.engine is Engine.DDP)


def _growing(context: Context, final: Bytes, between: Bytes) -> ByMoment:
    """Gradients appear from the last block to the first; from the second micro-batch on, `between` is there before."""
    accumulates = (context.layout.micro_batches > 1) | _zeroed(context)
    share = np.maximum(context.trainable_elements, 1)
    head = share_of(final, context.head_elements, share) if context.recipe.engine not in FSDP else context.zero
    # Under adapters a unit's frozen tensors get no gradient: its share is at most all there is.
    block = np.minimum(share_of(final, context.block_elements, share), final)
    root = np.minimum(share_of(final, context.root_elements, share), final)
    before_first = np.maximum(final - block - (root - head), 0)
    if context.recipe.engine in FSDP:
        before_first = np.maximum(final - block - root, 0)
    early = np.where(accumulates, between, 0)
    # FSDP's root unit is reduced last: its shards come when what travelled has gone.
    reduced = final - root if context.recipe.engine in FSDP else final
    return {
        FIRST_GATHER: early,
        FORWARD_BLOCK: early,
        FORWARD_LOSS: early,
        BACKWARD_LOSS: early,
        LAST_BLOCK: np.where(accumulates, between, head),
        NEXT_BLOCK: np.where(accumulates, between, np.minimum(head + block, final)),
        FIRST_BLOCK: np.where(accumulates, final, before_first),
        REDUCTION: np.where(accumulates, final, reduced),
        STEP: final,
    }
