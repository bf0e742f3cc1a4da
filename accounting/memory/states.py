"""Model states: parameters, gradients, the master copy and what the optimizer remembers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accounting.facts.dtypes import itemsize
from accounting.ledger import LOAD, ByMoment, Line, always
from accounting.memory.context import Context
from accounting.memory.gradients import fsdp_offload, full_gradients, gradients
from accounting.memory.sharding import Cut
from accounting.optimizer_laws import constant_bytes, needs_shapes, paged_bytes, state_bytes
from accounting.partition import add_up
from accounting.units import Bytes
from accounting.vocabulary import Bucket, Engine, Place

__all__ = ["STATE_LINES", "full_gradients", "master_bytes", "optimizer_bytes"]


def parameters(context: Context) -> ByMoment:
    """Trainable weights at rest.

    bytes = elements on the rank · bytes of the parameter dtype / (shard group where the stage shards parameters)

    Alive: all phases. Gathered copies are communication buffers. Source: Rajbhandari 2020 §5; measured per engine.
    """
    if _parameters_on_host(context):
        return {}
    return always(context.held_bytes(divided=context.law.parameters, dtype=context.recipe.precision.parameters))


def frozen_parameters(context: Context) -> ByMoment:
    """Weights that do not train, in the adapter's base dtype.

    bytes = sum of stored tensors, block scales included / (shard group under stage 3; not bitsandbytes under DeepSpeed)

    Alive: all phases. Source: bitsandbytes and PEFT storage, measured.
    """
    return {} if _parameters_on_host(context) else always(context.frozen_bytes)


def extra_models(context: Context) -> ByMoment:
    """Other weights the run holds (EMA copy, reference, reward), sharded as the engine shards parameters.

    bytes = parameters · bytes of their dtype; a trainable one holds gradients and states as well

    Alive: all phases.
    """
    total = context.zero
    for extra in context.recipe.extra_models:
        count = context.partition.elements() if extra.parameters is None else context.zero + extra.parameters
        per_parameter = itemsize(extra.dtype) + (4 + 8 + 4 if extra.trainable else 0)
        held = count * per_parameter
        total = total + (context.evenly(held) if context.law.parameters else held)
    return always(total) if context.recipe.extra_models else {}


def master_weights(context: Context) -> ByMoment:
    """The copy the optimizer steps on, where the recipe keeps one.

    bytes = elements on the rank · bytes of the master dtype / (shard group from stage 1 on)

    Alive: all phases, allocated at initialisation. Source: Micikevicius 2017; DeepSpeed, Megatron-Core.
    """
    return {} if _states_on_host(context) else always(master_bytes(context))


def optimizer_states(context: Context) -> ByMoment:
    """What the optimizer remembers per tensor, by its own law over the arrays it sees.

    bytes = sum over stored arrays of the registry row's slots + constants per optimizer

    Alive: from the first step on. Source: the optimizer's row; 2,302 measured rows.
    """
    if _states_on_host(context):
        return {}
    device = optimizer_bytes(context)[0] - paged_states(context)
    at_load = device if context.recipe.optimizer.allocated_at_init else 0
    return always(device, but={LOAD: at_load})


def optimizer_bytes(context: Context) -> tuple[Bytes, Bytes]:
    """State bytes of a rank, on device and host; 0 where shapes decide and a bare count has none. [byte, (N, S)]

    Several lines ask: worked out once a context.
    """
    if context.known_states is None:
        context.known_states = _optimizer_bytes(context)
    return context.known_states


def _optimizer_bytes(context: Context) -> tuple[Bytes, Bytes]:
    recipe = context.recipe
    if recipe.model.inventory is None and needs_shapes(recipe.optimizer):
        return context.zero, context.zero
    stepped = itemsize(recipe.precision.stepped)
    stated = recipe.precision.optimizer_states
    state_size = itemsize(stated) if stated is not None else None
    found = [
        (piece, state_bytes(recipe.optimizer, recipe.optimizer_options, view, stepped, state_size))
        for view, piece in context.optimizer_views
    ]
    shape = context.partition.shape
    device = add_up(((piece.units, piece.each, one.device) for piece, one in found), shape)
    host = add_up(((piece.units, piece.each, one.host) for piece, one in found), shape)
    constants, host_constants = constant_bytes(recipe.optimizer, recipe.optimizer_options)
    device = device + constants * (context.trainable_elements > 0)
    if context.law.cut is Cut.EVEN and context.law.states:
        device = context.evenly(device)
    return device, host + host_constants


def paged_states(context: Context) -> Bytes:
    """States in managed memory: outside the allocator, moved to the host where the device is full. [byte, (N, S)]"""
    recipe = context.recipe
    if not recipe.optimizer.paged:
        return context.zero
    stepped = itemsize(recipe.precision.stepped)
    parts = (
        (piece.units, piece.each, paged_bytes(recipe.optimizer, recipe.optimizer_options, view, stepped))
        for view, piece in context.optimizer_views
    )
    return add_up(parts, context.partition.shape)


def master_bytes(context: Context) -> Bytes:
    """The copy the optimizer steps on; DeepSpeed's partitioned stages clone even fp32 weights. [byte, (N, S)]"""
    recipe = context.recipe
    dtype = recipe.precision.master_weights
    if (
        dtype is None
        and recipe.engine is Engine.DEEPSPEED
        and recipe.zero_stage
        and recipe.precision.parameters == "fp32"
    ):
        dtype = "fp32"
    return context.held_bytes(divided=context.law.states, dtype=dtype)


def _states_on_host(context: Context) -> bool:
    return context.recipe.offload.optimizer is not Place.NONE or fsdp_offload(context)


def _parameters_on_host(context: Context) -> bool:
    return context.recipe.offload.parameters is not Place.NONE or fsdp_offload(context)


def _stored(part: str) -> Callable[[Context], str | None]:
    def dtype(context: Context) -> str | None:
        return getattr(context.recipe.precision, part)  # type: ignore[no-any-return]

    return dtype


def _shared(part: str) -> Callable[[Context], Bytes]:
    def divisor(context: Context) -> Bytes:
        divided = getattr(context.law, part)
        return context.partition.shard_group if divided else np.ones_like(context.partition.shard_group)

    return divisor


STATE_LINES: tuple[Line, ...] = (
    Line(
        "states.parameters", Bucket.PARAMETERS, parameters, dtype=_stored("parameters"), divisor=_shared("parameters")
    ),
    Line("states.frozen_parameters", Bucket.PARAMETERS, frozen_parameters, dtype=lambda context: context.base_dtype),
    Line("states.extra_models", Bucket.PARAMETERS, extra_models, divisor=_shared("parameters")),
    Line("states.gradients", Bucket.GRADIENTS, gradients, dtype=_stored("gradients"), divisor=_shared("gradients")),
    Line(
        "states.master_weights",
        Bucket.MASTER_WEIGHTS,
        master_weights,
        dtype=_stored("master_weights"),
        divisor=_shared("states"),
    ),
    Line("states.optimizer", Bucket.OPTIMIZER_STATES, optimizer_states, divisor=_shared("states")),
)
