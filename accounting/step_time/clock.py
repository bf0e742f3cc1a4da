"""What every term of a step reads: float columns of the layout and constants of each candidate's device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np

from accounting.catalog import Accelerator
from accounting.facts.calibration import (
    CORE_FAMILY,
    LM_FAMILY,
    Calibration,
    DeviceRow,
    EngineRow,
    FabricRow,
    KernelRow,
    LowPrecisionRow,
    engine_families,
)
from accounting.facts.collectives import LINK_ROWS, LinkRow
from accounting.machine import compute_rate
from accounting.model.architecture import Architecture
from accounting.partition import Partition
from accounting.scenario import Machine, Scenario
from accounting.units import Floats
from accounting.vocabulary import Engine

_Row = TypeVar("_Row", EngineRow, KernelRow)
_MEGATRON_STYLES = {CORE_FAMILY: "core", LM_FAMILY: "megatron-lm"}
_WHOLE = frozenset({"fp32", "tf32", "bf16", "fp16"})
_SINGLE_PRECISION = 0.85
"""Share of the fp32 peak (no tensor cores) that large products reach: cuBLAS SGEMM, 13 to 14 of 15.7 on V100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Constants of each candidate's device and of its link inside the scale-up domain, (N, 1) or (1, 1)."""

    gemm_efficiency: Floats
    gemm_padding: Floats
    gemm_ramp: Floats
    kernel_seconds: Floats
    attention_forward: Floats
    attention_backward: Floats
    attention_ramp: Floats
    memory_efficiency: Floats
    narrow_gain: Floats
    host_factor: Floats
    link_factor: Floats
    exchange_stall: Floats
    band_low: Floats
    band_high: Floats
    dense_peak: Floats
    """Dense FLOP/s of the 16-bit (or fp32) work beside low-precision products."""
    single: Floats
    """1 where that work runs in fp32 without tensor cores: by request, or because the device has no units for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Constants of LINK_ROWS for each candidate, (N, 1)."""

    fraction: Floats
    all_reduce_gain: Floats
    all_to_all_gain: Floats
    latency: Floats
    latency_per_member: Floats
    ramp: Floats
    ramp_bytes: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The shared input of all time lines. Float columns are float64 of shape (N, 1)."""

    scenario: Scenario
    partition: Partition
    architecture: Architecture
    device: Device
    link: Link
    engine: EngineRow
    engine_rows: tuple[EngineRow, EngineRow]
    """The row without and with context parallelism."""
    kernel: KernelRow
    fabric: FabricRow
    low_precision: LowPrecisionRow | None
    device_rows: tuple[DeviceRow, ...]
    """The row of each of the machine's accelerators."""
    tokens: Floats
    """Of one micro-batch on a rank."""
    tp: Floats
    norm_split: Floats
    """Ways the norm and residual work is split: tp under sequence parallelism, else 1."""
    micro_batches: Floats
    memory_rate: Floats
    """Reachable device bandwidth. [byte/s]"""
    activation_bytes: float
    """Of one element of an activation."""


def clock_of(scenario: Scenario, partition: Partition, architecture: Architecture, calibration: Calibration) -> Clock:
    """Gather constants and columns. Unknown machine facts stay NaN and make every time that needs them NaN."""
    recipe, layout = scenario.recipe, scenario.layout
    families = engine_families(scenario)
    engine = _chosen(calibration.engines, families, scenario)
    rows = tuple(calibration.device(item.slug, item.architecture) for item in scenario.machine.accelerators)
    device = _device_columns(scenario, rows)
    tp = layout.tp.astype(np.float64)
    return Clock(
        scenario=scenario,
        partition=partition,
        architecture=architecture,
        device=device,
        device_rows=rows,
        link=_link_columns(scenario.machine),
        engine=engine,
        engine_rows=(calibration.engines[families[0]], calibration.engines[families[1]]),
        kernel=_chosen(calibration.kernels, kernel_styles(scenario), scenario),
        fabric=calibration.fabric,
        low_precision=calibration.low_precision.get(low_precision_style(scenario)),
        tokens=partition.tokens.astype(np.float64),
        tp=tp,
        norm_split=np.where(layout.sequence_parallel, tp, 1.0),
        micro_batches=layout.micro_batches.astype(np.float64),
        memory_rate=scenario.machine.memory_bandwidth * device.memory_efficiency,
        activation_bytes=4.0 if recipe.precision.activations == "fp32" else 2.0,
    )


def kernel_styles(scenario: Scenario) -> tuple[str, str]:
    """(style of the recipe, style of its candidates with context parallelism).

    `compiled` where the model is, `core` or `megatron-lm` under NVIDIA's Megatron, `fused` under others of its lineage
    or by option, else `eager`.
    """
    recipe = scenario.recipe
    if recipe.options.compile:
        return "compiled", "compiled"
    plain = "fused" if recipe.engine is Engine.MEGATRON or recipe.options.fused_norm else "eager"
    first, second = (_MEGATRON_STYLES.get(name, plain) for name in engine_families(scenario))
    return first, second


def low_precision_style(scenario: Scenario) -> str:
    """The row of products below 16 bits: torchao's casts under FSDP2 (`-torch`, by row or tensor), else Transformer
    Engine's."""
    recipe = scenario.recipe
    if recipe.engine is not Engine.FSDP2:
        return recipe.precision.compute
    by_row = recipe.precision.compute == "fp8" and (recipe.options.float8_recipe_name or "").startswith("rowwise")
    return recipe.precision.compute + "-torch" + ("-rowwise" if by_row else "")


def _chosen(rows: Mapping[str, _Row], names: tuple[str, str], scenario: Scenario) -> _Row:
    """The row of the recipe; constants become columns where candidates with context parallelism use another row."""
    first, second = rows[names[0]], rows[names[1]]
    contexts = scenario.layout.cp > 1
    if first is second or not contexts.any():
        return first
    mixed = {
        item.name: np.where(contexts, getattr(second, item.name), getattr(first, item.name))
        for item in fields(first)
        if isinstance(getattr(first, item.name), float)
    }
    return replace(first, **mixed)


def _device_columns(scenario: Scenario, rows: tuple[DeviceRow, ...]) -> Device:
    machine = scenario.machine
    rates = [dense_rate(item, scenario) for item in machine.accelerators]
    bands = [row.band_of(item.slug) for row, item in zip(rows, machine.accelerators, strict=True)]

    def column(values: list[float]) -> Floats:
        table = np.asarray(values, dtype=np.float64)
        return table.reshape(1, 1) if len(values) == 1 else table[machine.accelerator_index]

    named = {item.name for item in fields(DeviceRow)}
    constants = {
        item.name: column([getattr(row, item.name) for row in rows]) for item in fields(Device) if item.name in named
    }
    powered = [_powered(row, item) for row, item in zip(rows, machine.accelerators, strict=True)]
    constants["gemm_efficiency"] = constants["gemm_efficiency"] * column(powered)
    single = column([float(dtype == "fp32") for _, dtype in rates])
    constants["gemm_efficiency"] = np.where(single > 0, _SINGLE_PRECISION, constants["gemm_efficiency"])
    return Device(
        **constants,
        band_low=column([band[0] for band in bands]),
        band_high=column([band[1] for band in bands]),
        dense_peak=column([np.nan if rate is None else rate for rate, _ in rates]),
        single=single,
    )


def _powered(row: DeviceRow, accelerator: Accelerator) -> float:
    """Share of the family's matrix rate that a device's power limit allows; 1 where either is unknown."""
    peak, power = accelerator.bf16_tflops, accelerator.power_watts
    if peak is None or power is None or row.full_power == 0:
        return 1.0
    return min(power / peak / row.full_power, 1.0)


def dense_rate(accelerator: Accelerator, scenario: Scenario) -> tuple[float | None, str | None]:
    """(dense FLOP/s, its dtype) of the work that low-precision compute leaves in 16 bits, and of all other compute.

    Without bf16 units torch computes bf16 through fp32, never at fp16's rate. Source: `machine.compute_rate`.
    """
    compute = scenario.recipe.precision.compute
    return compute_rate(accelerator, compute if compute in _WHOLE else "bf16")


def _link_columns(machine: Machine) -> Link:
    """Constants of the kind of link the catalog's node has: another rate of the same link keeps its kind."""
    specified = [None if node is None else node.intra_bytes_per_second for node in machine.node_types]
    rates = np.asarray([np.nan if rate is None else rate for rate in specified])
    edges = np.asarray([row.below for row in LINK_ROWS[:-1]])
    index = np.searchsorted(edges, rates, side="right")[machine.node_index]

    def column(name: str) -> Floats:
        return np.asarray([getattr(row, name) for row in LINK_ROWS], dtype=np.float64)[index]

    named = {item.name for item in fields(LinkRow)}
    return Link(**{item.name: column(item.name) for item in fields(Link) if item.name in named})
