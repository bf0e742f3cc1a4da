"""Saved tensors and FSDP2 peaks measured here and now: a share of the tables, against the tables and accounting.

Real model code, autograd and the tracker run on fake CUDA tensors; a small C++ guard is compiled for that.
"""

from __future__ import annotations

import importlib.util
import shutil
from typing import Any

import pytest

from tests.accounting.memory import saved_models, sharded_models
from tests.accounting.memory.measured import PEAKS, SAVED, name_of, read
from tests.reallib.activations.running import measured

pytestmark = [pytest.mark.reallib, pytest.mark.slow]
SKIP = "NOT RUN AGAINST THE REAL LIBRARY: {} is missing; pip install -r tests/requirements-reallib.txt, and g++"
SHARE = 7
"""One row in so many is measured: coprime to how often formats and kernels alternate, so that all take turns."""
SECONDS = 420
SAVED_ROWS = read(SAVED)[::SHARE]
PEAK_ROWS = read(PEAKS)[::6]


@pytest.fixture(scope="module", autouse=True)
def _libraries() -> None:
    for package in ("torch", "transformers", "peft"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(SKIP.format(package))
    if shutil.which("g++") is None:
        pytest.skip(SKIP.format("g++"))


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    return measured("worker", SAVED_ROWS, SECONDS)


def test_the_share_holds_every_kind_of_case() -> None:
    assert len({row["model"] for row in SAVED_ROWS}) >= 12
    assert {row["attention"] for row in SAVED_ROWS} >= {"sdpa", "eager"}
    assert {row["recipe"] for row in SAVED_ROWS} >= {"bf16", "fp32", "autocast"}
    assert {row["recompute"] for row in SAVED_ROWS} == {"none", "full"}
    assert any(row["targets"] for row in SAVED_ROWS)


def test_saved_tensors_are_those_of_the_table(answers: list[dict[str, Any]]) -> None:
    off = {
        name_of(row): (answer.get("error") or answer["saved_bytes"], row["saved_bytes"])
        for row, answer in zip(SAVED_ROWS, answers, strict=True)
        if answer.get("saved_bytes") != row["saved_bytes"] or answer.get("copy_bytes") != row["copy_bytes"]
    }
    assert not off


def test_saved_tensors_are_those_of_accounting(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        saved, _ = saved_models.predicted(answer)
        assert saved == pytest.approx(answer["saved_bytes"], rel=0.01), name_of(answer)


def test_peaks_of_fsdp2() -> None:
    for row, answer in zip(PEAK_ROWS, measured("sharded", PEAK_ROWS, SECONDS), strict=True):
        assert "error" not in answer, answer
        assert answer["peak_bytes"] == row["peak_bytes"], name_of(row)
        assert sharded_models.predicted(answer) == pytest.approx(answer["peak_bytes"], rel=0.03), name_of(row)
