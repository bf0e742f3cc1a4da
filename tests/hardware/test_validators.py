"""Each check with the mistake it is there for: one value of a shipped row spoiled, one fault at that value."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from accounting.units import GB, GIB
from hardware.columns import TABLES, Row
from hardware.consistency import price_flags, reference_faults
from hardware.validators import row_faults

TABLE = {table.name: table for table in TABLES}
NAMED = {
    "accelerators": lambda row: row["slug"],
    "nodes": lambda row: row["slug"],
    "interconnects": lambda row: row["slug"],
    "offers": lambda row: f"{row['instance_name']} {row['pricing_kind']}",
}


def pick(shipped: dict[str, list[Row]], table: str, name: str) -> Row:
    return next(row for row in shipped[table] if NAMED[table](row) == name)


@pytest.mark.parametrize(
    ("table", "name", "spoil", "at", "words"),
    [
        ("accelerators", "h100-sxm5-80gb", {"bf16_teraflops": 1979.0}, "bf16_teraflops", "halve the sparse"),
        ("accelerators", "h100-sxm5-80gb", {"fp8_teraflops": 3958.0}, "fp8_teraflops", "dense is at most"),
        ("accelerators", "rtx-a6000", {"bf16_teraflops": 309.7}, "bf16_teraflops", "155 dense"),
        ("accelerators", "a100-sxm4-40gb", {"memory_bytes": 81_920 << 20}, "memory_bytes", "2.147 times the 40 GB"),
        ("accelerators", "a100-sxm4-80gb", {"memory_bytes": 80}, "memory_bytes", "enter bytes"),
        (
            "accelerators",
            "a100-sxm4-80gb",
            {"memory_gb_marketing": 40.0},
            "memory_gb_marketing",
            "does not fit the name",
        ),
        ("accelerators", "h100-sxm5-80gb", {"torch_total_gib": 80.0}, "torch_total_gib", "cannot see"),
        ("accelerators", "t4", {"supports_bf16": True}, "supports_bf16", "it needs 8.0"),
        ("accelerators", "a100-sxm4-40gb", {"supports_fp8": True}, "supports_fp8", "it needs 8.9"),
        ("accelerators", "h100-sxm5-80gb", {"supports_bf16": False}, "supports_bf16", "every later one has it"),
        ("accelerators", "h100-sxm5-80gb", {"compute_capability": "90"}, "compute_capability", "looks like 9.0"),
        (
            "accelerators",
            "h100-sxm5-80gb",
            {"scaleup_gigabytes_per_second_per_direction": 900.0},
            "scaleup_gigabytes_per_second_per_direction",
            "450 each way",
        ),
        (
            "accelerators",
            "h100-sxm5-80gb",
            {
                "scaleup_gigabytes_per_second_per_direction": 900.0,
                "scaleup_gigabytes_per_second_bidirectional": 1800.0,
            },
            "scaleup_gigabytes_per_second_per_direction",
            "above NVLink 4",
        ),
        (
            "accelerators",
            "h100-sxm5-80gb",
            {"pcie_gigabytes_per_second_per_direction": 126.0},
            "pcie_gigabytes_per_second_per_direction",
            "above PCIe Gen5",
        ),
        ("accelerators", "h100-sxm5-80gb", {"power_watts": None}, "power_watts", "empty without a reason"),
        ("accelerators", "h100-sxm5-80gb", {"unknown": {"power_watts": "?"}}, "unknown", "take its reason out"),
        ("accelerators", "h100-sxm5-80gb", {"unknown": {"colour": "?"}}, "unknown", "no column that may be empty"),
        ("accelerators", "h100-sxm5-80gb", {"power_watts": 0.0}, "power_watts", "not above 0"),
        ("accelerators", "h100-sxm5-80gb", {"source": " "}, "source", "rumour"),
        ("accelerators", "h100-sxm5-80gb", {"kind": "gpu-slice"}, "parent_id", "names the device"),
        (
            "accelerators",
            "b200-sxm",
            {"measured_max_bf16_teraflops": 2300.0},
            "measured_max_bf16_teraflops",
            "above the peak",
        ),
        ("nodes", "aws-p5-48xlarge", {"accelerator_count": 0}, "accelerator_count", "not above 0"),
        ("nodes", "aws-p5-48xlarge", {"host_memory_bytes": 2048}, "host_memory_bytes", "enter bytes"),
        (
            "nodes",
            "aws-p5-48xlarge",
            {"inter_gigabits_per_second_per_accelerator": 3200.0},
            "inter_gigabits_per_second_per_accelerator",
            "is not the total of 3200",
        ),
        ("nodes", "aws-p5-48xlarge", {"topology": "single"}, "topology", "one with more is not"),
        ("nodes", "aws-p5-48xlarge", {"assumed": True}, "assumed", "confidence 'assumed'"),
        (
            "interconnects",
            "pcie-gen5-x16",
            {"gigabytes_per_second_per_direction": 126.0},
            "gigabytes_per_second_per_direction",
            "not half of the printed 126",
        ),
        (
            "interconnects",
            "nvlink-3-nvswitch",
            {"latency_microseconds_low": 90.0},
            "latency_microseconds_low",
            "above the upper",
        ),
        ("interconnects", "nvlink-3-nvswitch", {"fraction_basis": ""}, "fraction_basis", "what was measured"),
        ("offers", "p5.48xlarge on-demand", {"usd_per_hour": Decimal(0)}, "usd_per_hour", "not above 0"),
        ("offers", "p5.48xlarge on-demand", {"usd_per_hour": Decimal("0.3")}, "usd_per_hour", "the whole instance"),
        ("offers", "p5.48xlarge on-demand", {"usd_per_hour": Decimal(401)}, "usd_per_hour", "outside $0.05 to $50"),
        ("offers", "p5.48xlarge on-demand", {"pricing_kind": "reserved"}, "commitment", "names its commitment"),
        ("offers", "p5.48xlarge on-demand", {"date_precision": "undated"}, "price_date", "its precision"),
    ],
)
def test_spoiled_row_is_refused_at_the_value(
    shipped: dict[str, list[Row]], table: str, name: str, spoil: dict[str, Any], at: str, words: str
) -> None:
    row = {**pick(shipped, table, name), **spoil}
    faults = row_faults(TABLE[table], row)
    assert any(fault.attribute == at and words in fault.message for fault in faults), faults


def test_all_faults_of_a_row_come_at_once(shipped: dict[str, list[Row]]) -> None:
    row = {**pick(shipped, "accelerators", "h100-sxm5-80gb"), "bf16_teraflops": 1979.0, "memory_bytes": 80 * GB // 1000}
    assert {fault.attribute for fault in row_faults(TABLE["accelerators"], row)} == {
        "bf16_teraflops",
        "memory_bytes",
        "torch_total_gib",
    }


def test_ticked_price_outside_the_bounds_passes(shipped: dict[str, list[Row]]) -> None:
    row = {**pick(shipped, "offers", "p5.48xlarge on-demand"), "usd_per_hour": Decimal(4000), "price_confirmed": True}
    assert row_faults(TABLE["offers"], row) == []


@pytest.mark.parametrize(
    ("table", "name", "spoil", "words"),
    [
        ("accelerators", "h100-sxm5-80gb", {"default_node_id": "nowhere"}, "is not in nodes"),
        ("accelerators", "h100-sxm5-80gb", {"default_node_id": "aws-p5en-48xlarge"}, "holds h200"),
        ("accelerators", "a100-sxm4-40gb-mig-1g.5gb", {"memory_bytes": 60 * GIB}, "more memory than"),
        ("nodes", "aws-p5-48xlarge", {"accelerator_id": "h1000"}, "is not in accelerators"),
        ("nodes", "aws-p5-48xlarge", {"intra_gigabytes_per_second_per_direction": 900.0}, "above the device's 450"),
        ("nodes", "aws-p5-48xlarge", {"inter_interconnect_id": "string"}, "is not in interconnects"),
        ("offers", "p5.48xlarge on-demand", {"accelerator_count": 1}, "1 × h100-sxm5-80gb priced"),
        ("offers", "p5.48xlarge on-demand", {"node_type_id": "aws-p6"}, "is not in nodes"),
    ],
)
def test_broken_reference_is_found(
    shipped: dict[str, list[Row]], table: str, name: str, spoil: dict[str, Any], words: str
) -> None:
    pick(shipped, table, name).update(spoil)
    assert any(words in fault for fault in reference_faults(shipped))


def test_name_that_stands_twice_is_found(shipped: dict[str, list[Row]]) -> None:
    shipped["nodes"].append(shipped["nodes"][0])
    assert any("stands 2 times" in fault for fault in reference_faults(shipped))


def test_spot_above_on_demand_is_flagged_and_not_refused(shipped: dict[str, list[Row]]) -> None:
    offer = pick(shipped, "offers", "p5.48xlarge on-demand")
    spot = {**offer, "pricing_kind": "spot", "usd_per_hour": offer["usd_per_hour"] + 1, "price_date": date(2026, 7, 20)}
    assert row_faults(TABLE["offers"], spot) == []
    assert any("is above on-demand" in flag for flag in price_flags([offer, spot]))
