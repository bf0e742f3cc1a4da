"""Activations of a stage over the moments of a step, and the transients of the block that runs."""

from __future__ import annotations

import numpy as np

from accounting.ledger import (
    BACKWARD_LOSS,
    FIRST_BLOCK,
    FORWARD_BLOCK,
    FORWARD_LOSS,
    LAST_BLOCK,
    NEXT_BLOCK,
    REDUCTION,
    ByMoment,
    Line,
)
from accounting.memory.blocks import block_of
from accounting.memory.context import Context
from accounting.memory.saved_rows import norm_rows
from accounting.units import ceil_div
from accounting.vocabulary import Bucket, Engine, Place

BLOCK_MOMENTS = (LAST_BLOCK, NEXT_BLOCK, FIRST_BLOCK)


def blocks(context: Context) -> ByMoment:
    """What the blocks of a stage keep for their backward, all micro-batches in flight.

    bytes = sum over layer kinds of saved bytes per block · blocks · chunks in flight / virtual stages

    Alive: forward, and shrinking through the backward.
    Source: measured saved tensors; Korthikanti 2022; Narayanan 2021 for the micro-batches in flight.
    """
    if not context.has_activations:
        return {}
    stage = context.stage
    others = stage.held - stage.one_micro_batch
    return {
        FORWARD_BLOCK: np.maximum(stage.held - stage.one_block, 0),
        FORWARD_LOSS: stage.held,
        BACKWARD_LOSS: stage.held,
        LAST_BLOCK: stage.held,
        NEXT_BLOCK: np.maximum(stage.held - stage.one_block, 0),
        FIRST_BLOCK: np.maximum(others + stage.one_block, 0),
        REDUCTION: np.maximum(others, 0),
    }


def outside_blocks(context: Context) -> ByMoment:
    """Rotary tables, positions, the final norm and the embedding's dropout mask.

    bytes = 2 · sequence · head dim · bytes (rotary) + final norm (last stage) + tokens · hidden (mask, first stage)

    Alive: forward to the end of the backward. Source: measured (activations §3).
    """
    architecture = context.recipe.model.architecture
    if architecture is None or not context.recipe.inventory.kinds:
        return {}
    partition, layout, numerics = context.partition, context.layout, context.numerics
    block = block_of(context.recipe, layout, 0, numerics)
    norm = norm_rows(block, architecture.hidden_size, "final", "final norm")
    sequence_ways = np.where(layout.sequence_parallel, layout.tp, 1)
    final = ceil_div(partition.tokens * norm.per_token, sequence_ways) * partition.is_last
    rotary = (
        8 * layout.sequence_length
        if architecture.learned_positions
        else (2 * layout.sequence_length * architecture.head_dim * (2 if numerics.residual == 2 else 4))
    )
    mask = partition.tokens * architecture.hidden_size * partition.is_first if block.dropout > 0 else context.zero
    fixed = (rotary + mask) * partition.active
    held = fixed + final * partition.active
    return {
        FORWARD_BLOCK: fixed,
        FORWARD_LOSS: held,
        BACKWARD_LOSS: held,
        **dict.fromkeys(BLOCK_MOMENTS, fixed),
        REDUCTION: mask * partition.active,
    }


def recomputed_block(context: Context) -> ByMoment:
    """What recomputation brings back for the one block whose backward runs.

    bytes = saved bytes of the block without recomputation - what was kept of it

    Alive: the block moments of the backward. Source: measured peaks (activations §5, "one").
    """
    return dict.fromkeys(BLOCK_MOMENTS, context.stage.recomputed) if context.has_activations else {}


def working_set(context: Context) -> ByMoment:
    """Activation gradients inside the one block whose backward runs.

    bytes = tokens · (a · ffn + b · hidden) of the block's family and number format; scores where they are materialised

    Alive: backward. Source: measured peaks (activations §5, Y).
    """
    if not context.has_activations:
        return {}
    return dict.fromkeys(BLOCK_MOMENTS, context.stage.working_set)


def weight_copies(context: Context) -> ByMoment:
    """16-bit copies of fp32 weights that autocast makes.

    bytes = 2 · matrix weights of the blocks; kept by autograd without recomputation, by autocast's cache in the forward

    Alive: forward and, without recomputation, backward. Source: measured (activations §2).
    """
    if not context.numerics.autocast or not context.has_activations:
        return {}
    stage = context.stage
    kept, cached = stage.weight_copies, stage.weight_copies + stage.weight_cache
    return {
        FORWARD_BLOCK: cached,
        FORWARD_LOSS: cached,
        BACKWARD_LOSS: kept,
        LAST_BLOCK: kept,
        NEXT_BLOCK: kept,
        FIRST_BLOCK: context.zero,
    }


def sequence_gather(context: Context) -> ByMoment:
    """Full-sequence inputs that Megatron's sequence parallelism gathers again in the backward.

    bytes = bytes of an activation · tokens · hidden where tp > 1 with sequence parallelism

    Alive: forward block, backward blocks. Source: Megatron-Core layers (gather of the saved shard).
    """
    architecture = context.recipe.model.architecture
    if architecture is None or context.recipe.engine is not Engine.MEGATRON or context.numerics.modules:
        return {}
    gathered = context.partition.tokens * context.numerics.compute * architecture.hidden_size
    held = np.where(context.layout.sequence_parallel, gathered, 0) * context.partition.active
    return dict.fromkeys((FORWARD_BLOCK, *BLOCK_MOMENTS), held)


def host_activations(context: Context) -> ByMoment:
    """Block inputs or saved tensors that wait in host memory.

    bytes = held bytes of the stage less two blocks that stay in flight

    Alive: forward, backward; not on the device.
    """
    if context.recipe.offload.activations is not Place.CPU or not context.has_activations:
        return {}
    return dict.fromkeys((FORWARD_LOSS, BACKWARD_LOSS, LAST_BLOCK), context.stage.offloaded)


ACTIVATION_LINES: tuple[Line, ...] = (
    Line("activations.blocks", Bucket.ACTIVATIONS, blocks),
    Line("activations.outside_blocks", Bucket.ACTIVATIONS, outside_blocks),
    Line("host.activations", Bucket.ACTIVATIONS, host_activations, device=False),
)
TRANSIENT_LINES: tuple[Line, ...] = (
    Line("temporaries.recomputed_block", Bucket.TEMPORARIES, recomputed_block),
    Line("temporaries.working_set", Bucket.TEMPORARIES, working_set),
    Line("temporaries.weight_copies", Bucket.TEMPORARIES, weight_copies),
    Line("temporaries.sequence_gather", Bucket.TEMPORARIES, sequence_gather),
)
