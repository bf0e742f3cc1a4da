"""Model states: parameters, gradients, the master copy and what the optimizer remembers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accounting.facts.dtypes import itemsize
from accounting.ledger import (
    BACKWARD_MOMENTS,
    BACKWARD_LOSS,
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
    Line,
    always,
)
from accounting.memory.context import Context
from accounting.memory.sharding import FSDP, Cut
from accounting.optimizer_laws import constant_bytes, state_bytes
from accounting.units import Bytes, ceil_div
from accounting.vocabulary import Bucket, Engine, Place


def parameters(context: Context) -> ByMoment:
    """Trainable weights at rest.

    bytes = elements on the rank · bytes of the parameter dtype / (shard group where the stage shards parameters)

    Alive: all phases. Gathered copies are communication buffers. Source: Rajbhandari 2020 §5; measured per engine.
    """
    if _parameters_on_host(context):
        return {}
    return always(context.held_bytes(divided=context.law.parameters, part="parameters"))


def frozen_parameters(context: Context) -> ByMoment:
    """Weights that do not train, in the adapter's base dtype.

    bytes = sum of stored tensors (block scales included) / (shard group under stage 3; not bitsandbytes under DeepSpeed)

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


def gradients(context: Context) -> ByMoment:
    """Gradients as they accumulate, in the accumulation dtype.

    bytes = elements on the rank · bytes of the gradient dtype / (shard group where the stage shards gradients)

    Alive: from a block's backward to the step; always where the engine keeps flat buffers, and through the forward
    when micro-batches accumulate. Optimizer in backward: the largest tensor. Source: measured per engine.
    """
    recipe = context.recipe
    if recipe.optimizer.frees_gradients or recipe.options.optimizer_in_backward:
        size = itemsize(recipe.precision.gradients or recipe.precision.parameters)
        return dict.fromkeys((*BACKWARD_MOMENTS, STEP), context.partition.largest_tensor() * size)
    if _gradients_on_host(context):
        return {}
    full = full_gradients(context)
    if gradients_persist(context):
        return always(full, but={LOAD: 0} if recipe.engine is Engine.DDP else None)
    return _growing(context, full)


def full_gradients(context: Context) -> Bytes:
    """Gradient bytes of a rank at the end of a backward. [byte, (N, S)]"""
    options = context.recipe.options
    whole = options.no_sync and context.recipe.engine in FSDP
    return context.held_bytes(divided=context.law.gradients and not whole, part="gradients")


def gradients_persist(context: Context) -> bool:
    """Flat gradient buffers that outlive the step: Megatron's, DeepSpeed stage 3's, and those of a master-weight optimizer."""
    recipe = context.recipe
    if recipe.engine is Engine.DEEPSPEED:
        return recipe.zero_stage == 3
    if recipe.engine is Engine.DDP:
        return recipe.precision.master_weights is not None
    return recipe.engine in (Engine.MEGATRON, Engine.IDEAL)


def _growing(context: Context, full: Bytes) -> ByMoment:
    """Gradients that appear from the last block to the first; accumulation makes them whole from the second micro-batch on."""
    accumulates = context.layout.micro_batches > 1
    share = np.maximum(context.trainable_elements, 1)
    head = full * context.head_elements // share if context.recipe.engine not in FSDP else context.zero
    block = full * context.block_elements // share
    root = full * context.root_elements // share
    before_first = np.maximum(full - block - (root - head), 0)
    if context.recipe.engine in FSDP:
        before_first = np.maximum(full - block - root, 0)
    early = np.where(accumulates, full, 0)
    return {
        FIRST_GATHER: early,
        FORWARD_BLOCK: early,
        FORWARD_LOSS: early,
        BACKWARD_LOSS: early,
        LAST_BLOCK: np.where(accumulates, full, head),
        NEXT_BLOCK: np.where(accumulates, full, np.minimum(head + block, full)),
        FIRST_BLOCK: np.where(accumulates, full, before_first),
        REDUCTION: full,
        STEP: full,
    }


def master_weights(context: Context) -> ByMoment:
    """The copy the optimizer steps on, where the recipe keeps one.

    bytes = elements on the rank · bytes of the master dtype / (shard group from stage 1 on)

    Alive: all phases, allocated at initialisation. Source: Micikevicius 2017; DeepSpeed, Megatron-Core.
    """
    return {} if _states_on_host(context) else always(_master(context))


def optimizer_states(context: Context) -> ByMoment:
    """What the optimizer remembers per tensor, by its own law over the arrays it sees.

    bytes = sum over stored arrays of the registry row's slots + constants per optimizer

    Alive: from the first step on. Source: the optimizer's row; 2,302 measured rows.
    """
    if _states_on_host(context):
        return {}
    device, _ = optimizer_bytes(context)
    at_load = device if context.recipe.optimizer.allocated_at_init else 0
    return always(device, but={LOAD: at_load})


def optimizer_bytes(context: Context) -> tuple[Bytes, Bytes]:
    """State bytes of a rank, on the device and on the host. [byte, (N, S)]"""
    recipe = context.recipe
    stepped = itemsize(recipe.precision.stepped)
    stated = recipe.precision.optimizer_states
    state_size = itemsize(stated) if stated is not None else None
    device = host = context.zero
    for view, copies in context.optimizer_views:
        one = state_bytes(recipe.optimizer, recipe.optimizer_options, view, stepped, state_size)
        device = device + one.device * copies
        host = host + one.host * copies
    constants, host_constants = constant_bytes(recipe.optimizer, recipe.optimizer_options)
    device = device + constants * (context.trainable_elements > 0)
    if context.law.cut is Cut.EVEN and context.law.states:
        device = context.evenly(device)
    return device, host + host_constants


def host_states(context: Context) -> ByMoment:
    """Optimizer states, master copy, offloaded weights and gradients that rest in host memory.

    bytes = step scalars that the library keeps on the host + whatever the recipe offloads (pinned)

    Alive: all phases; not on the device. Source: DeepSpeed ZeRO-Offload memory document; torch step scalars measured.
    """
    device, host = optimizer_bytes(context)
    total = host
    if context.recipe.offload.optimizer is Place.CPU or _fsdp_offload(context):
        total = total + device + _master(context) + _offloaded_gradients(context)
    if context.recipe.offload.parameters is Place.CPU:
        total = total + context.held_bytes(divided=context.law.parameters, part="parameters") + context.frozen_bytes
    return always(total)


def nvme_states(context: Context) -> Bytes:
    """Bytes of a rank that rest on NVMe. [byte, (N, S)]"""
    total = context.zero
    if context.recipe.offload.optimizer is Place.NVME:
        total = total + optimizer_bytes(context)[0] + _master(context) + _offloaded_gradients(context)
    if context.recipe.offload.parameters is Place.NVME:
        total = total + context.held_bytes(divided=context.law.parameters, part="parameters") + context.frozen_bytes
    return total


def _offloaded_gradients(context: Context) -> Bytes:
    """DeepSpeed keeps fp32 gradients and a 16-bit staging copy beside offloaded states; FSDP the sharded gradients."""
    if _fsdp_offload(context):
        return full_gradients(context)
    elements = ceil_div(context.trainable_elements, context.partition.shard_group)
    staging = 2 * itemsize(context.recipe.precision.parameters) * context.partition.largest_tensor()
    return 4 * elements + itemsize(context.recipe.precision.parameters) * elements + staging


def _master(context: Context) -> Bytes:
    return context.held_bytes(divided=context.law.states, part="master_weights")


def _states_on_host(context: Context) -> bool:
    return context.recipe.offload.optimizer is not Place.NONE or _fsdp_offload(context)


def _fsdp_offload(context: Context) -> bool:
    """FSDP's CPU offload moves parameters, gradients and the step together."""
    offload = context.recipe.offload
    return context.recipe.engine in FSDP and Place.CPU in (offload.parameters, offload.optimizer)


def _parameters_on_host(context: Context) -> bool:
    return context.recipe.offload.parameters is not Place.NONE or _fsdp_offload(context)


def _gradients_on_host(context: Context) -> bool:
    offload = context.recipe.offload
    return _fsdp_offload(context) or (context.recipe.engine is Engine.DEEPSPEED and offload.optimizer is not Place.NONE)


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
    Line("states.parameters", Bucket.PARAMETERS, parameters, dtype=_stored("parameters"), divisor=_shared("parameters")),
    Line("states.frozen_parameters", Bucket.PARAMETERS, frozen_parameters, dtype=lambda context: context.base_dtype),
    Line("states.extra_models", Bucket.PARAMETERS, extra_models, divisor=_shared("parameters")),
    Line("states.gradients", Bucket.GRADIENTS, gradients, dtype=_stored("gradients"), divisor=_shared("gradients")),
    Line("states.master_weights", Bucket.MASTER_WEIGHTS, master_weights, dtype=_stored("master_weights"), divisor=_shared("states")),
    Line("states.optimizer", Bucket.OPTIMIZER_STATES, optimizer_states, divisor=_shared("states")),
    Line("host.states", Bucket.OPTIMIZER_STATES, host_states, device=False),
)
