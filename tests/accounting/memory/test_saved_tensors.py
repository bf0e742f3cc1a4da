"""Bytes that autograd keeps of real transformers models, and peaks of real FSDP2 iterations, without any of them here.

The tables were measured by tests/reallib/activations, which measures a share of them anew where torch is installed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.accounting.memory import saved_models, sharded_models
from tests.accounting.memory.measured import PEAKS, SAVED, name_of, read

ROWS = read(SAVED)
NAMES = sorted(saved_models.MODELS)
TOLERANCE = 0.01
PEAK_TOLERANCE = 0.03


@cache
def predictions() -> list[tuple[int, int]]:
    return [saved_models.predicted(row) for row in ROWS]


def rows_of(name: str) -> list[tuple[dict[str, Any], tuple[int, int]]]:
    return [pair for pair in zip(ROWS, predictions(), strict=True) if pair[0]["model"] == name]


@pytest.mark.parametrize("name", NAMES)
def test_saved_bytes_of_a_family(name: str) -> None:
    rows = rows_of(name)
    assert rows, f"no measured row of {name}"
    off = {}
    for row, (saved, copies) in rows:
        total = row["saved_bytes"] + row["copy_bytes"]
        far = abs(saved - row["saved_bytes"]) > TOLERANCE * row["saved_bytes"]
        if far or abs(saved + copies - total) > TOLERANCE * total:
            off[name_of(row)] = (saved, row["saved_bytes"], copies, row["copy_bytes"])
    assert not off


def test_most_rows_are_exact() -> None:
    exact = sum(saved == row["saved_bytes"] for row, (saved, _) in zip(ROWS, predictions(), strict=True))
    assert exact >= 0.9 * len(ROWS), f"{exact} of {len(ROWS)} rows to the byte"


def test_the_tables_cover_what_they_promise() -> None:
    assert len({row["model"] for row in ROWS}) >= 12
    for column, values in {
        "recipe": {"bf16", "fp32", "autocast"},
        "attention": {"sdpa", "eager", "flash"},
        "recompute": {"none", "full"},
    }.items():
        assert {row[column] for row in ROWS} >= values
    assert any(row["targets"] for row in ROWS)
    assert any(row["dropout"] for row in ROWS)
    assert len({(row["sequence"], row["micro_batch"]) for row in ROWS}) >= 2


@pytest.mark.parametrize("row", read(PEAKS), ids=name_of)
def test_peak_of_an_fsdp2_iteration(row: dict[str, Any]) -> None:
    assert row["layers"] >= 4
    assert sharded_models.predicted(row) == pytest.approx(row["peak_bytes"], rel=PEAK_TOLERANCE)
