"""Facts of the device, node and price behind each candidate, gathered from catalog rows by index.

One function serves the single estimate and the search. Unknown stays unknown: NaN for rates and prices, -1 for bytes
and cores; what was assumed instead of a missing fact comes back in words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.catalog import Accelerator, NodeType, Offer
from accounting.scenario import Machine, column
from accounting.units import GIGA, TERA, Bytes, ceil_div
from accounting.vocabulary import Engine

COMPUTE_RATES: dict[str, tuple[str, ...]] = {
    "fp32": ("fp32",),
    "tf32": ("tf32", "fp32"),
    "bf16": ("bf16", "fp32"),
    "fp16": ("fp16", "fp32"),
    "fp8": ("fp8", "bf16", "fp16", "fp32"),
    "mxfp8": ("fp8", "bf16", "fp16", "fp32"),
    "nvfp4": ("fp4", "fp8", "bf16", "fp16", "fp32"),
}
"""Rates to look for, best first. Without bf16 units torch computes bf16 through fp32; fp8 falls back to 16 bit."""

ENGINES_BY_KIND: dict[str, frozenset[Engine]] = {
    "gpu": frozenset(Engine),
    "gpu-slice": frozenset(Engine),
    "cpu": frozenset(Engine) - {Engine.MEGATRON},
    "npu": frozenset({Engine.DDP, Engine.FSDP1, Engine.DEEPSPEED, Engine.IDEAL}),
    "tpu": frozenset({Engine.IDEAL}),
}
"""Which engines run on a kind of device: Megatron needs CUDA or ROCm; Gaudi's bridge has DDP, FSDP1 and DeepSpeed; TPUs
and Trainium run XLA's own sharding, which none of these engines is. Source: the engines' installation pages."""
XLA_VENDORS = frozenset({"google", "aws"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The rows that index columns point into."""

    accelerators: tuple[Accelerator, ...]
    node_types: tuple[NodeType | None, ...]
    offers: tuple[Offer | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which row each candidate uses, (N, 1) each, and how many devices it rents."""

    accelerator: NDArray[np.int64]
    node_type: NDArray[np.int64]
    offer: NDArray[np.int64]
    count: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Facts that a request states over the catalog's. None = the catalog's."""

    memory_bytes: int | None = None
    bf16_tflops: float | None = None
    memory_bandwidth_gbps: float | None = None
    """10^9 byte per second."""
    power_watts: float | None = None
    host_memory_bytes: int | None = None
    devices_per_node: int | None = None
    inter_node_gbps: float | None = None
    """10^9 bit per second and direction, whole node."""


def engine_runs_on(engine: Engine, accelerator: Accelerator) -> bool:
    """Whether an engine runs on a device at all."""
    if accelerator.vendor.lower() in XLA_VENDORS and accelerator.kind in {"tpu", "npu"}:
        return engine is Engine.IDEAL
    return engine in ENGINES_BY_KIND.get(accelerator.kind, frozenset())


def compute_rate(accelerator: Accelerator, compute: str) -> tuple[float | None, str | None]:
    """(dense FLOP/s of one device, the dtype whose rate that is); (None, None) where no rate is known."""
    for dtype in COMPUTE_RATES[compute]:
        if (dtype == "bf16" and not accelerator.supports_bf16) or (dtype == "fp8" and not accelerator.supports_fp8):
            continue
        tflops: float | None = getattr(accelerator, f"{dtype}_tflops")
        if tflops is not None:
            return tflops * TERA, dtype
    return None, None


def overridden_accelerator(accelerator: Accelerator, overrides: Overrides) -> Accelerator:
    """The device with the facts that the request states."""
    changes: dict[str, Any] = {}
    if overrides.memory_bytes is not None:
        changes["memory_bytes"] = overrides.memory_bytes
        changes["torch_total_gib"] = None
    if overrides.bf16_tflops is not None:
        changes |= {"bf16_tflops": overrides.bf16_tflops, "measured_max_bf16_tflops": None, "supports_bf16": True}
    if overrides.memory_bandwidth_gbps is not None:
        changes["memory_bandwidth_bytes_per_second"] = overrides.memory_bandwidth_gbps * GIGA
    if overrides.power_watts is not None:
        changes["power_watts"] = overrides.power_watts
    return replace(accelerator, **changes) if changes else accelerator


def overridden_node(node: NodeType, overrides: Overrides) -> NodeType:
    """The machine with the facts that the request states.

    A domain as wide as the node follows the node's new width; a wider one (a rack) stays.
    """
    changes: dict[str, Any] = {}
    if overrides.host_memory_bytes is not None:
        changes["host_memory_bytes"] = overrides.host_memory_bytes
    if overrides.inter_node_gbps is not None:
        changes["inter_bytes_per_second_total"] = overrides.inter_node_gbps * GIGA / 8
        changes["inter_bytes_per_second_per_accelerator"] = None
    devices = overrides.devices_per_node
    if devices is not None and devices != node.accelerator_count:
        narrow = node.scaleup_domain_size <= node.accelerator_count
        whole = node.scaleup_domain_size >= node.accelerator_count
        changes["accelerator_count"] = devices
        if narrow:
            changes["scaleup_domain_size"] = devices if whole else min(node.scaleup_domain_size, devices)
    return replace(node, **changes) if changes else node


def machine_columns(tables: Tables, choice: Choice, compute: str) -> Machine:
    """The machine columns of N candidates.

    `usd_per_device_hour` bills whole instances: ceil(count / devices of the instance) · price / count.
    A candidate whose node row is None has one device per node, which only a single-device run may ask for.
    """
    accelerators, nodes = tables.accelerators, tables.node_types
    device, node, offer = choice.accelerator, choice.node_type, choice.offer
    link = _floats(row.scaleup_bytes_per_second for row in accelerators)[device]
    pcie = _floats(row.pcie_bytes_per_second for row in accelerators)[device]
    intra = _floats(row.intra_bytes_per_second if row else None for row in nodes)[node]
    intra = np.where(np.isnan(intra), np.where(np.isnan(link), pcie, link), intra)
    return Machine(
        accelerators=accelerators,
        accelerator_index=device,
        node_types=nodes,
        node_index=node,
        offers=tables.offers,
        offer_index=offer,
        capacity_bytes=_whole(row.memory_bytes for row in accelerators)[device],
        devices_per_node=_whole(row.accelerator_count if row else 1 for row in nodes)[node],
        scaleup_domain=_whole(row.scaleup_domain_size if row else 1 for row in nodes)[node],
        host_memory_bytes=_whole(row.host_memory_bytes if row else None for row in nodes)[node],
        host_cores=_whole(row.vcpus if row else None for row in nodes)[node],
        power_watts=_floats(row.power_watts for row in accelerators)[device],
        memory_bandwidth=_floats(row.memory_bandwidth_bytes_per_second for row in accelerators)[device],
        peak_flops=_floats(compute_rate(row, compute)[0] for row in accelerators)[device],
        intra_bandwidth=intra,
        inter_bandwidth=_floats(row.inter_bytes_per_second_total if row else None for row in nodes)[node],
        pcie_bandwidth=pcie,
        usd_per_device_hour=price_per_device(tables.offers, offer, choice.count),
    )


def single_machine(
    accelerator: Accelerator, node: NodeType | None, offer: Offer | None, count: int, compute: str
) -> Machine:
    """The machine of one estimate: N = 1."""
    zero = column(0)
    tables = Tables(accelerators=(accelerator,), node_types=(node,), offers=(offer,))
    choice = Choice(accelerator=zero, node_type=zero, offer=zero, count=column(count))
    return machine_columns(tables, choice, compute)


def price_per_device(offers: tuple[Offer | None, ...], index: NDArray[np.int64], count: Bytes) -> NDArray[np.float64]:
    """Price of an hour spread over the devices used, whole instances billed; NaN without an offer. [USD, (N, 1)]"""
    size = _whole(row.accelerator_count if row else 1 for row in offers)[index]
    price = _floats(row.usd_per_hour if row else None for row in offers)[index]
    return np.asarray(ceil_div(count, size) * price / count, dtype=np.float64)


def _floats(values: Iterable[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _whole(values: Iterable[int | None]) -> NDArray[np.int64]:
    return np.array([-1 if value is None else value for value in values], dtype=np.int64)
