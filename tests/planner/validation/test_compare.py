"""Predicted beside measured, on what real runs gave (measured.json): right formulas agree, corrupted ones do not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import accounting.memory.ranks
from accounting.memory import MEMORY_LINES
from accounting.memory.states import STATE_LINES
from planner.validation.compare import COMPARISONS, Comparison, Line, compare_device, compare_shapes, quantiles
from planner.validation.shipped import request
from tests.planner.validation.payloads import IMPORT, case, corrupted

RUNS = json.loads(Path(__file__).with_name("measured.json").read_text())["runs"]


def compared(run: dict[str, Any]) -> Comparison:
    found = case(run["payload"])
    return COMPARISONS[found.kind.name](found.scenario, run["measured"])


@pytest.mark.parametrize("run", RUNS)
def test_measured_runs_agree(run: dict[str, Any]) -> None:
    comparison = compared(run)
    assert comparison.agrees, comparison.outliers()
    assert comparison.headline is not None


@pytest.mark.parametrize("key", ["states.parameters", "states.gradients", "states.optimizer"])
def test_a_corrupted_state_formula_disagrees_and_is_named(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte in a thousand is enough where bytes are counted."""
    monkeypatch.setattr(accounting.memory.ranks, "STATE_LINES", corrupted(STATE_LINES, key, 1.001))
    for run in (run for run in RUNS if run["payload"]["kind"] == "cpu"):
        comparison = compared(run)
        assert comparison.agrees is False
        assert {outlier["line"] for outlier in comparison.outliers()} == {key}


@pytest.mark.parametrize(
    ("key", "factor", "phase"),
    [
        ("activations.blocks", 1.1, "phase.forward"),
        ("loss.logits", 1.4, "phase.backward"),
        ("buffers.gathered_units", 2.0, "phase.forward"),
        ("states.optimizer", 1.2, "phase.optimizer_step"),
    ],
)
def test_a_corrupted_line_of_a_step_disagrees(
    key: str, factor: float, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The package's door of the same name hides the module.
    monkeypatch.setattr(sys.modules["accounting.estimate"], "MEMORY_LINES", corrupted(MEMORY_LINES, key, factor))
    (run,) = [
        run
        for run in RUNS
        if run["payload"]["kind"] == "dry-run" and run["payload"]["request"]["parallelism"].get("dp_shard") == 8
    ]
    comparison = compared(run)
    assert comparison.agrees is False
    assert phase in {outlier["line"] for outlier in comparison.outliers()}


def test_a_shape_that_differs_is_a_line_of_its_own() -> None:
    found = case({"kind": "shapes", "request": request("fsdp2", 3, 8)}).scenario
    shapes: dict[tuple[int, ...], int] = {}
    for tensor, times in found.recipe.inventory.all_tensors():
        shapes[tensor.shape] = shapes.get(tensor.shape, 0) + tensor.count * times
    counts = dict.fromkeys(("parameters", "trainable_parameters"), found.recipe.model.parameters)
    same = {**counts, "shapes": [[list(shape), count] for shape, count in shapes.items()]}
    assert compare_shapes(found, same).agrees
    other = {**same, "shapes": [*same["shapes"], [[7, 7], 2]], "parameters": counts["parameters"] + 98}
    comparison = compare_shapes(found, other)
    assert {line["line"] for line in comparison.outliers()} == {"shape [7, 7]", "parameters"}


def test_out_of_memory_is_set_against_what_was_said() -> None:
    scenario = case(IMPORT).scenario
    comparison = compare_device(scenario, {"out_of_memory": {"in": "forward"}})
    assert comparison.agrees is None
    assert "ran out of memory" in comparison.notes[0]


def test_errors_and_tolerances() -> None:
    near = Line(line="x", predicted=103, measured=100, tolerance=0.03)
    far = Line(line="x", predicted=104, measured=100, tolerance=0.03)
    unknown = Line(line="x", predicted=None, measured=100, tolerance=0.03)
    assert (near.agrees, far.agrees, unknown.agrees, unknown.error) == (True, False, None, None)
    assert far.error == pytest.approx(0.04)
    assert Comparison(lines=(unknown,), predicted={}, headline=None).agrees is None
    summary = quantiles([0.1, -0.2, 0.0])
    assert (summary["runs"], summary["largest"], summary["median"]) == (3, -0.2, 0.0)
