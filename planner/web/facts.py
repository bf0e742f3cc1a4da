"""Detail pages are declared, not drawn: one row a fact, with its unit and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from accounting.units import GB, GIB
from hardware.choices import Confidence, Origin
from planner.web import format as text
from planner.web.ledger import Fact

Say = Callable[[Any], str]


@dataclass(frozen=True)
class Attribute:
    """One fact: its words, the attribute it is read from, and how it is written."""

    label: str
    name: str
    say: Say = str


def facts_of(row: Any, attributes: Iterable[Attribute]) -> tuple[Fact, ...]:
    """The facts of a row; one that is missing says so with its reason, one that does not apply is left out."""
    reasons = getattr(row, "unknown", None) or {}
    found = []
    for attribute in attributes:
        value = getattr(row, attribute.name)
        if value is None or value == "":
            if attribute.name in reasons:
                found.append(Fact(attribute.label, f"{text.NOT_KNOWN}: {reasons[attribute.name]}"))
            continue
        found.append(Fact(attribute.label, attribute.say(value)))
    return tuple(found)


def unit(name: str) -> Say:
    """A number with its unit, as plainly as it is stored."""
    return lambda value: f"{text.plain(round(float(value), 4))}{text.NBSP}{name}"


def both_sizes(size: int) -> str:
    """A capacity in GiB, rounded down, and in GB."""
    return f"{text.capacity(size)} = {text.fixed(size / GB, 1)}{text.NBSP}GB"


def driver_size(size: int) -> str:
    """A capacity as the driver prints it, and in GiB."""
    mebibytes = size / (GIB / 1024)
    return f"{text.plain(round(mebibytes, 2))}{text.NBSP}MiB = {text.gib_number(size, 2)}{text.NBSP}GiB"


def yes(value: bool) -> str:
    """A flag in a word."""
    return "yes" if value else "no"


def local_size(size: int) -> str:
    """Storage in TB or GB; none is said."""
    if size == 0:
        return "none"
    return f"{text.plain(round(size / GB, 1))}{text.NBSP}GB"


ACCELERATOR = (
    Attribute("Capacity, driver", "memory_bytes", driver_size),
    Attribute("Read with", "memory_reported_by"),
    Attribute("Nominal", "memory_gb_marketing", unit("GB")),
    Attribute("A framework sees", "torch_total_gib", unit("GiB")),
    Attribute("Memory", "memory_type"),
    Attribute("Memory bandwidth", "memory_bandwidth_gigabytes_per_second", unit("GB/s")),
    Attribute("bf16, dense", "bf16_teraflops", unit("TFLOP/s")),
    Attribute("bf16, best measured", "measured_max_bf16_teraflops", unit("TFLOP/s")),
    Attribute("fp16, dense", "fp16_teraflops", unit("TFLOP/s")),
    Attribute("fp8, dense", "fp8_teraflops", unit("TFLOP/s")),
    Attribute("fp4, dense", "fp4_teraflops", unit("TFLOP/s")),
    Attribute("TF32, dense", "tf32_teraflops", unit("TFLOP/s")),
    Attribute("fp32", "fp32_teraflops", unit("TFLOP/s")),
    Attribute("Link between GPUs", "scaleup_link"),
    Attribute("Link, each way, per GPU", "scaleup_gigabytes_per_second_per_direction", unit("GB/s")),
    Attribute("PCIe generation", "pcie_generation"),
    Attribute("PCIe, each way", "pcie_gigabytes_per_second_per_direction", unit("GB/s")),
    Attribute("Board power", "power_watts", unit("W")),
    Attribute("Compute capability", "compute_capability"),
    Attribute("Devices that software sees", "software_devices"),
    Attribute("Part of", "parent_id"),
    Attribute("Share of it", "parent_fraction"),
    Attribute("Usual node", "default_node_id"),
)
NODE = (
    Attribute("Provider", "provider"),
    Attribute("Instance", "instance_name"),
    Attribute("GPUs in one node", "accelerator_count"),
    Attribute("vCPUs", "vcpus", text.count),
    Attribute("Host memory per node", "host_memory_bytes", both_sizes),
    Attribute("Local NVMe per node", "local_nvme_bytes", local_size),
    Attribute("Inside the node", "intra_link"),
    Attribute("Inside, each way, per GPU", "intra_gigabytes_per_second_per_direction", unit("GB/s")),
    Attribute("GPUs joined by it", "scaleup_domain_size"),
    Attribute("Between nodes", "inter_link"),
    Attribute("Between nodes, whole node", "inter_gigabits_per_second_total", unit("Gb/s")),
    Attribute("Between nodes, per GPU", "inter_gigabits_per_second_per_accelerator", unit("Gb/s")),
    Attribute("Assumed, nobody sells it", "assumed", yes),
)
LINK = (
    Attribute("Each way, per GPU", "gigabytes_per_second_per_direction", unit("GB/s")),
    Attribute("Both ways, as printed", "gigabytes_per_second_bidirectional", unit("GB/s")),
    Attribute("Between one pair", "p2p_gigabytes_per_second_per_direction", unit("GB/s")),
    Attribute("Latency from", "latency_microseconds_low", unit("µs")),
    Attribute("Latency to", "latency_microseconds_high", unit("µs")),
    Attribute("Measured share of the rate", "achievable_fraction"),
    Attribute("How it was measured", "fraction_basis"),
)


@dataclass(frozen=True)
class Origins:
    """Where a row comes from, for the line under its facts."""

    source: str
    dates: str
    confidence: str
    origin: str
    note: str


def origins_of(row: Any) -> Origins:
    """Source, dates, confidence and who wrote a catalog row."""
    dates = [f"dated {text.day(row.source_date)}"] if row.source_date else []
    dates += [f"checked {text.day(row.checked_date)}"] if row.checked_date else ["never checked since it was entered"]
    return Origins(
        source=row.source,
        dates=", ".join(dates),
        confidence=str(dict(Confidence.choices).get(row.confidence, row.confidence)).lower(),
        origin=str(dict(Origin.choices).get(row.origin, row.origin)),
        note=row.note,
    )
