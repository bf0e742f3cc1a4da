"""Once a step: the optimizer's own traffic and products, and what is kept on the host."""

from __future__ import annotations

import numpy as np

from accounting.facts.dtypes import find_dtype
from accounting.optimizer_laws.steps import step_traffic_bytes_per_element
from accounting.step_time.clock import Clock
from accounting.units import Floats
from accounting.vocabulary import Engine, Place

_CLIPPING_BYTES = 8.0
"""Gradient norm and scaling read every gradient once more, and zeroing writes it. [byte per parameter]"""
_HOST_BYTES = 28.0
"""DeepSpeed's CPU Adam: reads and writes master, two moments, reads the gradient. [byte per parameter]"""
_HOST_RATE_PER_CORE = 1.2e9
"""Memory bandwidth a host core brings to CPU Adam, up to the host's own. [byte/s]"""
_HOST_RATE_MOST = 150e9
"""Two sockets of DDR4 or DDR5 as CPU Adam reaches them. [byte/s per node]"""
_HOST_RATE_OF_A_RANK = 18.75e9
"""What one process of CPU Adam reaches alone: its threads do not fill a node made for eight. [byte/s]"""
_FUSING = (Engine.MEGATRON, Engine.DEEPSPEED)
_PCIE_SHARE = 0.8
_NVME_RATE = 5e9
"""Reading and writing of local NVMe a node. [byte/s]"""


def optimizer_bytes(clock: Clock) -> float:
    """Traffic of one step per local parameter. [byte per parameter]

    Megatron and DeepSpeed step Adam in their own fused kernels whatever torch's default is.
    """
    recipe = clock.scenario.recipe
    options = recipe.optimizer_options
    if recipe.engine in _FUSING and any(option.name == "fused" for option in recipe.optimizer.options):
        options = {**options, "fused": True, "foreach": False}
    stepped = find_dtype(recipe.precision.stepped).bytes_per_element
    gradient = find_dtype(recipe.precision.gradients or recipe.precision.parameters).bytes_per_element
    copy = find_dtype(recipe.precision.parameters).bytes_per_element if recipe.precision.master_weights else 0
    moved = step_traffic_bytes_per_element(
        recipe.optimizer,
        options,
        parameter_itemsize=int(stepped),
        gradient_itemsize=int(gradient),
        copy_itemsize=int(copy),
    )
    return moved + _CLIPPING_BYTES * float(gradient) / 4


def update_seconds(clock: Clock, local: Floats) -> Floats:
    """Optimizer on the device: local parameters · bytes / W. [second, (N, 1)]"""
    if clock.scenario.recipe.offload.optimizer is not Place.NONE:
        return np.zeros_like(clock.tokens)
    return local * optimizer_bytes(clock) / clock.memory_rate


def offloaded_update_bytes(clock: Clock, local: Floats) -> Floats:
    """Gradients down and weights up, once a step, where the optimizer runs on the host. [byte, (N, 1)]"""
    recipe = clock.scenario.recipe
    if recipe.offload.optimizer is Place.NONE:
        return np.zeros_like(clock.tokens)
    moved = float(find_dtype(recipe.precision.gradients or "fp32").bytes_per_element)
    return local * (moved + float(find_dtype(recipe.precision.parameters).bytes_per_element))


def offloaded_update_seconds(clock: Clock, local: Floats) -> Floats:
    """Optimizer on the host: gradients down, CPU Adam over the node's DRAM, weights up. [second, (N, 1)]

    local·(g + w)/(0.8·PCIe) + local·28 B/min(18.75e9, min(cores·1.2e9, 150e9)/devices per node); NVMe moves the states
    twice more.
    Source: Ren 2021 (ZeRO-Offload) §4; Rajbhandari 2021 (ZeRO-Infinity).
    """
    recipe, machine = clock.scenario.recipe, clock.scenario.machine
    if recipe.offload.optimizer is Place.NONE:
        return np.zeros_like(clock.tokens)
    share = np.minimum(machine.devices_per_node, clock.scenario.layout.count).astype(np.float64)
    cores = np.where(machine.host_cores > 0, machine.host_cores, np.nan)
    rate = np.minimum(np.minimum(cores * _HOST_RATE_PER_CORE, _HOST_RATE_MOST) / share, _HOST_RATE_OF_A_RANK)
    seconds = offloaded_update_bytes(clock, local) / (machine.pcie_bandwidth * _PCIE_SHARE)
    seconds = seconds + local * _HOST_BYTES / rate
    if recipe.offload.optimizer is Place.NVME:
        seconds = seconds + local * 2 * 12.0 / (_NVME_RATE / share)
    return seconds


def parameter_offload_bytes(clock: Clock, gathered: Floats, passes: int) -> Floats:
    """A rank's share of the weights from the host, for each pass over a micro-batch. [byte, (N, 1)]"""
    if clock.scenario.recipe.offload.parameters is Place.NONE:
        return np.zeros_like(clock.tokens)
    return passes * gathered / clock.partition.shard_group


def parameter_offload_seconds(clock: Clock, gathered: Floats, passes: int) -> Floats:
    """Bringing a rank's share of the weights from the host for each pass, per micro-batch. [second, (N, 1)]"""
    recipe, machine = clock.scenario.recipe, clock.scenario.machine
    moved = parameter_offload_bytes(clock, gathered, passes)
    if recipe.offload.parameters is Place.NONE:
        return moved
    seconds = moved / (machine.pcie_bandwidth * _PCIE_SHARE)
    if recipe.offload.parameters is Place.NVME:
        share = np.minimum(machine.devices_per_node, clock.scenario.layout.count)
        seconds = np.maximum(seconds, moved * share / _NVME_RATE)
    return seconds


def activation_offload_bytes(clock: Clock, blocks: Floats) -> Floats:
    """Checkpoints down and up, per micro-batch: 2·blocks·tokens·h/split. [byte, (N, 1)]"""
    if clock.scenario.recipe.offload.activations is Place.NONE:
        return np.zeros_like(clock.tokens)
    size = blocks * clock.tokens * clock.architecture.hidden_size * clock.activation_bytes / clock.norm_split
    return 2 * size


def activation_offload_seconds(clock: Clock, blocks: Floats, window: Floats) -> Floats:
    """What of moving checkpoints to the host and back the computation does not hide, per micro-batch. [second, (N, 1)]

    max(0, 2·blocks·tokens·h/split/(0.8·PCIe) - window). Source: torchtune and ALST activation offloading.
    """
    moved = activation_offload_bytes(clock, blocks)
    if clock.scenario.recipe.offload.activations is Place.NONE:
        return moved
    return np.maximum(moved / (clock.scenario.machine.pcie_bandwidth * _PCIE_SHARE) - window, 0.0)
