"""Every shipped row through every check, and the facts that public catalogs most often get wrong."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from accounting.units import MIB
from hardware.columns import TABLES, Row, Table, read_table, render_table
from hardware.consistency import price_flags, reference_faults
from hardware.loader import SHIPPED_DATA
from hardware.validators import row_faults

ROWS = {table.name: read_table(SHIPPED_DATA, table) for table in TABLES}
ALL = [
    pytest.param(table, row, id="/".join(map(str, table.key_of(row)))) for table in TABLES for row in ROWS[table.name]
]


def device(name: str) -> Row:
    return next(row for row in ROWS["accelerators"] if row["name"] == name)


@pytest.mark.parametrize(("table", "row"), ALL)
def test_row_passes_every_check(table: Table, row: Row) -> None:
    assert row_faults(table, row) == []


def test_rows_fit_one_another() -> None:
    assert reference_faults(ROWS) == []


def test_tables_are_whole() -> None:
    kinds = [row["kind"] for row in ROWS["accelerators"]]
    assert len(kinds) - kinds.count("gpu-slice") - kinds.count("cpu") == 62
    assert kinds.count("gpu-slice") == 18
    assert kinds.count("cpu") == 1
    assumed = [row for row in ROWS["nodes"] if row["assumed"] and not row["instance_name"].startswith("1x ")]
    assert len(assumed) == 33
    assert len(ROWS["nodes"]) == 146 + 18 + 1
    assert len(ROWS["interconnects"]) == 42
    kinds = [row["pricing_kind"] for row in ROWS["offers"]]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"on-demand": 287, "spot": 79, "reserved": 38}
    assert len([row for row in ROWS["offers"] if row["date_precision"] == "exact"]) == 329


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("A100-SXM4-40GB", "memory_bytes", 40_960 * MIB),
        ("A100-SXM4-80GB", "memory_bytes", 81_920 * MIB),
        ("A100-SXM4-40GB", "memory_bandwidth_gigabytes_per_second", 1555),
        ("A100-SXM4-80GB", "memory_bandwidth_gigabytes_per_second", 2039),
        ("H100-SXM5-80GB", "memory_bytes", 81_559 * MIB),
        ("H100-SXM5-80GB", "bf16_teraflops", 989.4),
        ("H100-SXM5-80GB", "fp8_teraflops", 1978.9),
        ("H100-SXM5-80GB", "scaleup_gigabytes_per_second_per_direction", 450),
        ("H200-SXM-141GB", "memory_bytes", 143_771 * MIB),
        ("B200-SXM", "memory_bytes", 183_359 * MIB),
        ("B200-SXM", "bf16_teraflops", 2250),
        ("RTX-3090", "bf16_teraflops", 71),
        ("L40S", "bf16_teraflops", 362),
        ("MI300X", "memory_bandwidth_gigabytes_per_second", 5300),
        ("MI300X", "bf16_teraflops", 1307.4),
        ("MI325X", "memory_bytes", None),
        ("V100-SXM2-16GB", "supports_bf16", False),
        ("T4", "bf16_teraflops", None),
        ("TPU-v5p", "memory_bytes", None),
        ("A100-SXM4-40GB-MIG-3g.20gb", "memory_bytes", 20_096 * MIB),
        ("H100-SXM5-80GB-MIG-1g.10gb", "memory_bytes", 9_984 * MIB),
    ],
)
def test_published_fact(name: str, column: str, value: Any) -> None:
    assert device(name)[column] == value


def test_unknown_is_null_with_a_reason() -> None:
    row = device("MI325X")
    assert "driver" in row["unknown"]["memory_bytes"]


def test_slice_is_its_share_of_the_device() -> None:
    whole, part = device("A100-SXM4-40GB"), device("A100-SXM4-40GB-MIG-3g.20gb")
    assert part["bf16_teraflops"] == pytest.approx(whole["bf16_teraflops"] * 42 / 108, rel=1e-4)
    assert part["memory_bandwidth_gigabytes_per_second"] == whole["memory_bandwidth_gigabytes_per_second"] / 2
    assert part["scaleup_gigabytes_per_second_per_direction"] is None


def test_bridge_joins_two_cards_and_no_more() -> None:
    bridged = [row for row in ROWS["nodes"] if "bridge (pair)" in row["intra_link"]]
    assert len(bridged) == 8
    assert {(row["topology"], row["scaleup_domain_size"]) for row in bridged} == {("pair", 2)}


def test_odd_prices_are_known_ones() -> None:
    assert price_flags(ROWS["offers"]) == [
        "aws us-east-1 g4dn.12xlarge: on-demand $3.912 for 4 devices is below $4.352 for fewer"
    ]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_file_is_in_its_own_canonical_form(table: Table) -> None:
    text = (SHIPPED_DATA / table.file_name).read_text(encoding="utf-8")
    assert render_table(table, ROWS[table.name]) == text


def test_measured_collectives_are_complete() -> None:
    with (SHIPPED_DATA / "nccl_busbw.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 938
    assert all(float(row["busbw_gigabytes_per_second"]) > 0 and row["source"] for row in rows)


def test_config_files_are_objects() -> None:
    folder = Path(SHIPPED_DATA).parents[1] / "planner" / "specs" / "data" / "hf_configs"
    files = sorted(folder.glob("*.json"))
    assert len([file for file in files if "clip" not in file.name]) == 22
    assert all(isinstance(json.loads(file.read_text("utf-8")), dict) for file in files)
