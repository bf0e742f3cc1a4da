"""Pure checks of one catalog row by itself (rows against one another: consistency.py).

The mistakes they catch are the ones public catalogs make: sparse rates, both directions of a link added up, GB read
as GiB, the 40 GB card's numbers on the 80 GB card, a node's total for one device, a device's price for the node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from accounting.units import GB, GIB
from hardware.columns import Row, Table

LEAST_USD_PER_DEVICE_HOUR = Decimal("0.05")
MOST_USD_PER_DEVICE_HOUR = Decimal(50)
MARKETING_RATIO = (0.95, 1.075)
"""Driver bytes over (marketing GB × 10^9): 1.0737 where the vendor's GB are GiB."""
HOST_MEMORY = (GIB, 64 * 1024 * GIB)
TOLERANCE = 0.01
DENSE_VENDORS = frozenset({"nvidia", "amd", "intel"})

DENSE_16_BIT_CEILING: Mapping[str, float] = {
    "Pascal": 22,
    "Volta": 130,
    "Turing": 70,
    "Ampere": 312,
    "Ampere 8.6": 155,
    "Ada": 365,
    "Hopper": 990,
    "Blackwell": 2500,
    "Blackwell (GB202)": 504,
    "Blackwell Ultra": 2500,
    "CDNA": 185,
    "CDNA2": 383,
    "CDNA3": 1308,
    "CDNA4": 2517,
}
"""Largest dense bf16/fp16 rate of any product of an architecture, or of one compute capability of it, TFLOP/s (vendor
datasheets): above it is sparse."""
DENSE_RATIO_CEILING: tuple[tuple[str, str, float], ...] = (
    ("tf32_teraflops", "fp16_teraflops", 0.52),
    ("fp8_teraflops", "fp16_teraflops", 2.6),
    ("fp4_teraflops", "fp8_teraflops", 4.1),
    ("int8_teraops", "fp16_teraflops", 4.1),
)
"""Dense rate over the next wider dense rate. Consumer parts halve fp32-accumulate rates, so integer and fp4 reach 4.1;
Gaudi 3 lists bf16 alike for fp8 but fp16 at a quarter, so its fp16 is no base (see _ratio_faults)."""
SCALEUP_GENERATION_CEILING: Mapping[str, float] = {
    "NVLink 1": 80,
    "NVLink 2": 150,
    "NVLink 3": 300,
    "NVLink 4": 450,
    "NVLink 5": 900,
}
"""GB/s per direction, all links of a GPU."""
PCIE_X16: Mapping[int, float] = {3: 15.76, 4: 31.6, 5: 63.1, 6: 121.1}
"""GB/s per direction of 16 lanes."""
BF16_COMPUTE_CAPABILITY = (8, 0)
FP8_COMPUTE_CAPABILITY = (8, 9)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one value, and what to do about it."""

    attribute: str
    message: str


Rule = Callable[[Row], Iterator[Fault]]


def row_faults(table: Table, row: Row) -> list[Fault]:
    """Everything wrong with one row by itself."""
    return [*_reason_faults(table, row), *(fault for rule in RULES[table.name] for fault in rule(row))]


def _reason_faults(table: Table, row: Row) -> Iterator[Fault]:
    reasons = row["unknown"]
    nullable = table.nullable.split()
    for attribute in nullable:
        if row[attribute] is None and not reasons.get(attribute):
            yield Fault(attribute, f'empty without a reason: add {{"{attribute}": "why"}} to "unknown"')
    for attribute in reasons:
        if attribute not in nullable:
            yield Fault("unknown", f"{attribute!r} is no column that may be empty; those are {', '.join(nullable)}")
        elif row[attribute] is not None:
            yield Fault("unknown", f"{attribute!r} has a value, {row[attribute]}: take its reason out")


def _positive(*attributes: str) -> Rule:
    def rule(row: Row) -> Iterator[Fault]:
        for attribute in attributes:
            if row[attribute] is not None and row[attribute] <= 0:
                yield Fault(attribute, f"{row[attribute]} is not above 0; leave it empty where it is unknown")

    return rule


def _capacity(row: Row) -> Iterator[Fault]:
    size, marketing = row["memory_bytes"], row["memory_gb_marketing"]
    least, most = MARKETING_RATIO
    if size is not None and not least <= size / (marketing * GB) <= most:
        yield Fault(
            "memory_bytes",
            f"{size:,} bytes is {size / (marketing * GB):.3f} times the {marketing:g} GB of the product: enter bytes "
            f"(MiB × 1,048,576) of this very variant; {least} to {most} times is possible",
        )
    framework = row["torch_total_gib"]
    if size is not None and framework is not None and framework * GIB > size:
        yield Fault("torch_total_gib", f"a framework cannot see {framework} GiB of {size / GIB:.2f} GiB")
    named = re.search(r"[-.](\d+)gb$", row["name"].lower())
    if named and float(named.group(1)) != marketing:
        yield Fault("memory_gb_marketing", f"{marketing:g} GB does not fit the name {row['name']}")


def _dense(row: Row) -> Iterator[Fault]:
    family = row["architecture"]
    ceiling = DENSE_16_BIT_CEILING.get(f"{family} {row['compute_capability']}", DENSE_16_BIT_CEILING.get(family))
    for attribute in ("fp16_teraflops", "bf16_teraflops"):
        rate = row[attribute]
        if ceiling is not None and rate is not None and rate > ceiling * (1 + TOLERANCE):
            yield Fault(
                attribute,
                f"{rate:g} is above the {ceiling:g} dense TFLOP/s of the fastest {row['architecture']}: "
                "halve the sparse rate, and give the rate of one device, not of a pair or a node",
            )
    yield from _ratio_faults(row)
    measured, peak = row["measured_max_bf16_teraflops"], row["bf16_teraflops"]
    if measured is not None and peak is not None and measured > peak:
        yield Fault("measured_max_bf16_teraflops", f"{measured:g} measured is above the peak of {peak:g}")


def _ratio_faults(row: Row) -> Iterator[Fault]:
    if row["vendor"] not in DENSE_VENDORS:
        return  # TPUs and AWS chips have their own ladders of rates
    base = {**row, "fp16_teraflops": max(row["fp16_teraflops"] or 0, row["bf16_teraflops"] or 0) or None}
    for attribute, wider, most in DENSE_RATIO_CEILING:
        rate, below = row[attribute], base[wider]
        if rate is not None and below is not None and rate > below * most * (1 + TOLERANCE):
            yield Fault(
                attribute,
                f"{rate:g} is {rate / below:.2f} times the {wider.split('_')[0]} {below:g}: dense is at most {most}, "
                "halve the sparse number",
            )


def _capability(row: Row) -> Iterator[Fault]:
    if row["vendor"] == "nvidia":
        if not re.fullmatch(r"\d+\.\d", row["compute_capability"]):
            yield Fault("compute_capability", f"{row['compute_capability']!r}: NVIDIA's looks like 9.0")
            return
        capability = tuple(int(part) for part in row["compute_capability"].split("."))
        for attribute, needed in (
            ("supports_bf16", BF16_COMPUTE_CAPABILITY),
            ("supports_fp8", FP8_COMPUTE_CAPABILITY),
        ):
            if row[attribute] != (capability >= needed):
                limit = ".".join(map(str, needed))
                held = f"{attribute}={row[attribute]} at compute capability {row['compute_capability']}"
                yield Fault(attribute, f"{held}: it needs {limit} or later, and every later one has it")
    for attribute, rate in (("supports_bf16", "bf16_teraflops"), ("supports_fp8", "fp8_teraflops")):
        if not row[attribute] and row[rate] is not None and row["kind"] != "tpu":
            yield Fault(rate, f"a rate of {row[rate]:g} on a device without {attribute.removeprefix('supports_')}")


def _both_directions(one: str, both: str) -> Rule:
    def rule(row: Row) -> Iterator[Fault]:
        if (row[one] is None) != (row[both] is None):
            yield Fault(one, f"give both {one} and {both}, or neither")
        elif row[one] is not None and abs(row[both] / row[one] - 2) > 2 * TOLERANCE:
            yield Fault(
                one, f"{row[one]:g} each way is not half of the printed {row[both]:g}: 900 GB/s NVLink is 450 each way"
            )

    return rule


def _link_generation(row: Row) -> Iterator[Fault]:
    rate = row["scaleup_gigabytes_per_second_per_direction"]
    for generation, most in SCALEUP_GENERATION_CEILING.items():
        if rate is not None and row["scaleup_link"].startswith(generation) and rate > most * (1 + TOLERANCE):
            yield Fault(
                "scaleup_gigabytes_per_second_per_direction", f"{rate:g} is above {generation}'s {most:g} each way"
            )
    lanes = PCIE_X16.get(row["pcie_generation"])
    pcie = row["pcie_gigabytes_per_second_per_direction"]
    if lanes is not None and pcie is not None and pcie > lanes:
        yield Fault("pcie_gigabytes_per_second_per_direction",
                    f"{pcie:g} is above PCIe Gen{row['pcie_generation']} x16: {lanes:g} each way")  # fmt: skip


def _slice(row: Row) -> Iterator[Fault]:
    if (row["kind"] == "gpu-slice") != (row["parent_id"] is not None):
        yield Fault("parent_id", "a slice, and only a slice, names the device it is cut from")
    fraction = row["parent_fraction"]
    if fraction is not None and not 0 < fraction <= 1:
        yield Fault("parent_fraction", f"{fraction} is not a share between 0 and 1")


def _machine(row: Row) -> Iterator[Fault]:
    count = row["accelerator_count"]
    if (count == 1) != (row["topology"] == "single"):
        yield Fault("topology", "a machine with one device is 'single', one with more is not")
    total, each = row["inter_gigabits_per_second_total"], row["inter_gigabits_per_second_per_accelerator"]
    if (total is None) != (each is None):
        yield Fault("inter_gigabits_per_second_total", "give the total and the share per device, or neither")
    elif total is not None and abs(each * count / total - 1) > TOLERANCE:
        yield Fault("inter_gigabits_per_second_per_accelerator",
                    f"{each:g} × {count} devices is not the total of {total:g} Gb/s")  # fmt: skip
    least, most = HOST_MEMORY
    host = row["host_memory_bytes"]
    if host is not None and not least <= host <= most:
        yield Fault("host_memory_bytes", f"{host:,} bytes is no size of a server's memory: enter bytes (GiB × {GIB:,})")
    if row["assumed"] != (row["confidence"] == "assumed"):
        yield Fault("assumed", "an assumed machine has the confidence 'assumed', and no other has it")


def _price(row: Row) -> Iterator[Fault]:
    each = row["usd_per_hour"] / row["accelerator_count"]
    if not LEAST_USD_PER_DEVICE_HOUR <= each <= MOST_USD_PER_DEVICE_HOUR and not row["price_confirmed"]:
        yield Fault(
            "usd_per_hour",
            f"${each:.4f} a device-hour is outside ${LEAST_USD_PER_DEVICE_HOUR} to ${MOST_USD_PER_DEVICE_HOUR}: "
            "enter the price of the whole instance an hour, or tick 'price confirmed'",
        )
    if (row["pricing_kind"] == "reserved") != bool(row["commitment"]):
        yield Fault("commitment", "a reserved price names its commitment (1y, 3y), no other price does")
    window = row["price_not_before"] is not None and row["price_not_after"] is not None
    if (row["date_precision"] == "undated") != (row["price_date"] is None):
        yield Fault("price_date", f"the date is {row['price_date']} and its precision {row['date_precision']!r}")
    elif row["price_date"] is None and not window:
        yield Fault("price_not_before", "an undated price says between which two days it was read")


def _billing(row: Row) -> Iterator[Fault]:
    period, minimum = row["billing_period_seconds"], row["billing_minimum_seconds"]
    if period is None and minimum is not None:
        yield Fault("billing_minimum_seconds", "a least amount goes with a billing period: enter the period too")
    elif period and minimum is not None and minimum < period:
        yield Fault("billing_minimum_seconds", f"{minimum} s is less than one period of {period} s: leave it empty")
    if period is not None and not row["billing_source"].strip():
        yield Fault("billing_source", "say where the provider's billing terms can be read")


def _latency(row: Row) -> Iterator[Fault]:
    low, high = row["latency_microseconds_low"], row["latency_microseconds_high"]
    if low is not None and high is not None and low > high:
        yield Fault("latency_microseconds_low", f"{low:g} is above the upper end, {high:g}")
    fraction = row["achievable_fraction"]
    if fraction is not None and not row["fraction_basis"]:
        yield Fault("fraction_basis", f"say what was measured at {fraction:g}")


def _sourced(row: Row) -> Iterator[Fault]:
    if not row["source"].strip():
        yield Fault("source", "a number without a source is a rumour: say where it can be read")


RULES: Mapping[str, tuple[Rule, ...]] = {
    "accelerators": (
        _sourced,
        _positive(
            "memory_gb_marketing", "memory_bytes", "torch_total_gib", "memory_bandwidth_gigabytes_per_second",
            "fp32_teraflops", "tf32_teraflops", "fp16_teraflops", "bf16_teraflops", "fp8_teraflops", "fp4_teraflops",
            "int8_teraops", "measured_max_bf16_teraflops", "scaleup_gigabytes_per_second_per_direction",
            "pcie_gigabytes_per_second_per_direction", "power_watts", "software_devices",
        ),
        _capacity,
        _dense,
        _capability,
        _both_directions("scaleup_gigabytes_per_second_per_direction", "scaleup_gigabytes_per_second_bidirectional"),
        _link_generation,
        _slice,
    ),
    "nodes": (
        _sourced,
        _positive(
            "accelerator_count", "vcpus", "host_memory_bytes", "intra_gigabytes_per_second_per_direction",
            "scaleup_domain_size", "inter_gigabits_per_second_total",
        ),
        _machine,
    ),
    "interconnects": (
        _sourced,
        _positive("gigabytes_per_second_per_direction", "p2p_gigabytes_per_second_per_direction",
                  "achievable_fraction"),
        _both_directions("gigabytes_per_second_per_direction", "gigabytes_per_second_bidirectional"),
        _latency,
    ),
    "offers": (_sourced, _positive("usd_per_hour", "accelerator_count",
                                                       "billing_period_seconds", "billing_minimum_seconds"),
               _price, _billing),
}  # fmt: skip
