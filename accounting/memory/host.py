"""Lines that rest in host memory: scalars, offloaded states, gradients and weights, staging buffers, swap buffers."""

from __future__ import annotations

import numpy as np

from accounting.facts.dtypes import itemsize
from accounting.facts.frameworks import DEEPSPEED
from accounting.ledger import ByMoment, Line, always
from accounting.memory.context import Context
from accounting.memory.gradients import fsdp_offload, full_gradients
from accounting.memory.states import master_bytes, optimizer_bytes, paged_states
from accounting.scenario import EVENLY_SPREAD
from accounting.units import Bytes
from accounting.vocabulary import Bucket, Engine, Place

_FP32 = 4


def host_scalars(context: Context) -> ByMoment:
    """Scalars of the optimizer that its library keeps in host memory (step counters), and paged states.

    bytes = sum of the registry row's host slots over the arrays a rank steps on + states in managed memory

    Alive: all phases; not on the device. Source: torch step scalars, measured.
    """
    return always(optimizer_bytes(context)[1] + paged_states(context))


def host_states(context: Context) -> ByMoment:
    """Offloaded optimizer states and the fp32 master copy they belong to, pinned.

    bytes = states + master of the rank, as they would lie on the device

    Alive: all phases; not on the device. Source: DeepSpeed ZeRO-Offload memory document; torch CPUOffloadPolicy.
    """
    if context.recipe.offload.optimizer is not Place.CPU and not fsdp_offload(context):
        return {}
    return always(optimizer_bytes(context)[0] + master_bytes(context))


def host_gradients(context: Context) -> ByMoment:
    """Gradients beside offloaded states: DeepSpeed's fp32 partition, FSDP's sharded gradients.

    bytes = 4 · elements of the partition (DeepSpeed), the shard's gradients (FSDP)

    Alive: all phases; not on the device. Source: measured (optimizers, Sharding: 4P held for good).
    """
    if fsdp_offload(context):
        return always(full_gradients(context))
    return always(offloaded_gradients(context)) if context.recipe.offload.optimizer is Place.CPU else {}


def host_parameters(context: Context) -> ByMoment:
    """Weights that rest in host memory and travel to the device when their block runs, pinned.

    bytes = the rank's trainable and frozen weights

    Alive: all phases; not on the device. Source: DeepSpeed offload_param; torch CPUOffloadPolicy.
    """
    if context.recipe.offload.parameters is not Place.CPU and not fsdp_offload(context):
        return {}
    return always(offloaded_parameters(context))


def host_staging(context: Context) -> ByMoment:
    """DeepSpeed stages 1, 2 with states on the host: buffers that gradients and weights pass through.

    bytes = 16-bit copy of the partition + 2 · largest tensor in 16 bit

    Alive: all phases; not on the device. Source: measured (optimizers, Sharding); deepspeed stage_1_and_2.
    """
    recipe = context.recipe
    if recipe.engine is not Engine.DEEPSPEED or recipe.offload.optimizer is not Place.CPU or recipe.zero_stage == 3:  # noqa: PLR2004
        return {}
    size = itemsize(recipe.precision.parameters)
    partition = context.held_bytes(divided=True, dtype=recipe.precision.parameters)
    return always(partition + 2 * size * _largest_named_tensor(context))


def host_swap(context: Context) -> ByMoment:
    """DeepSpeed with NVMe: pinned buffers that states and weights pass through on their way to the drive.

    bytes = 4 buffers · 4 · elements of a sub-group (states) + 5 buffers · 1e8 elements · bytes of a weight (weights)

    Alive: all phases; not on the device. Source: deepspeed 0.19.8 offload_config (buffer_count, buffer_size).
    """
    recipe = context.recipe
    total = context.zero
    if recipe.offload.optimizer is Place.NVME:
        shard = context.held_bytes(divided=True, dtype="fp32")
        group = (recipe.options.sub_group_size or DEEPSPEED.sub_group_size) * _FP32
        total = total + DEEPSPEED.optimizer_swap_buffers * np.minimum(shard, group)
    if recipe.offload.parameters is Place.NVME:
        one = DEEPSPEED.parameter_swap_buffer_size * itemsize(recipe.precision.parameters)
        total = total + DEEPSPEED.parameter_swap_buffers * one
    return always(total) if Place.NVME in (recipe.offload.optimizer, recipe.offload.parameters) else {}


def offloaded_gradients(context: Context) -> Bytes:
    """fp32 gradients of a rank's partition beside offloaded states. [byte, (N, S)]"""
    return context.held_bytes(divided=True, dtype="fp32")


def offloaded_parameters(context: Context) -> Bytes:
    """Weights of a rank that rest off the device. [byte, (N, S)]"""
    precision = context.recipe.precision
    return context.held_bytes(divided=context.law.parameters, dtype=precision.parameters) + context.frozen_bytes


def nvme_states(context: Context) -> Bytes:
    """Bytes of a rank that rest on NVMe. [byte, (N, S)]"""
    total = context.zero
    if context.recipe.offload.optimizer is Place.NVME:
        total = total + optimizer_bytes(context)[0] + master_bytes(context) + offloaded_gradients(context)
    if context.recipe.offload.parameters is Place.NVME:
        total = total + offloaded_parameters(context)
    return total


def _largest_named_tensor(context: Context) -> Bytes:
    """Elements of the largest tensor; 0 for a bare count, whose tensors nobody named. [(N, S)]"""
    if all(item.tensor.role == EVENLY_SPREAD for item in context.trainable):
        return context.zero
    return context.partition.largest_tensor()


HOST_LINES: tuple[Line, ...] = (
    Line("host.scalars", Bucket.OPTIMIZER_STATES, host_scalars, device=False),
    Line("host.states", Bucket.OPTIMIZER_STATES, host_states, device=False),
    Line("host.gradients", Bucket.GRADIENTS, host_gradients, device=False),
    Line("host.parameters", Bucket.PARAMETERS, host_parameters, device=False),
    Line("host.staging", Bucket.COMMUNICATION_BUFFERS, host_staging, device=False),
    Line("host.swap", Bucket.COMMUNICATION_BUFFERS, host_swap, device=False),
)
