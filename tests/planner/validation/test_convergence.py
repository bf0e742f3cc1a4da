"""The verdict over paired losses."""

from __future__ import annotations

import math

import pytest

from planner.errors import InvalidRequest
from planner.validation.convergence import compare_convergence, noise_by_layer, read_options, verdict

REFERENCE = [1.40, 1.42, 1.38, 1.41, 1.39]


def paired(*gaps: float) -> list[tuple[float, float]]:
    return [(loss + gap, loss) for loss, gap in zip(REFERENCE, gaps, strict=True)]


def test_the_same_losses_are_indistinguishable() -> None:
    found = verdict(paired(0, 0, 0, 0, 0), 3.6)
    assert (found["word"], found["gap"], found["interval"]) == ("indistinguishable", 0.0, [0.0, 0.0])


def test_the_interval_is_students() -> None:
    found = verdict(paired(0.1, 0.2, 0.3, 0.4, 0.5), 3.6)
    half = 2.776 * math.sqrt(0.025) / math.sqrt(5)
    assert found["gap"] == pytest.approx(0.3)
    assert found["interval"] == pytest.approx([0.3 - half, 0.3 + half])
    assert found["word"] == "worse"


@pytest.mark.parametrize(
    ("gaps", "word"),
    [
        ((0.1, -0.1, 0.05, -0.05, 0.02), "indistinguishable"),
        ((0.005, 0.006, 0.004, 0.005, 0.005), "indistinguishable"),
        ((0.1, 0.11, 0.1, 0.09, 0.1), "worse"),
        ((-0.1, -0.11, -0.1, -0.09, -0.1), "better"),
        ((2.1, 2.11, 2.12, 2.1, 2.1), "stalled"),
        ((5.0, 5.1, 5.2, 5.1, 5.0), "diverged"),
        ((math.nan, 0, 0, 0, 0), "diverged"),
    ],
)
def test_words(gaps: tuple[float, ...], word: str) -> None:
    assert verdict(paired(*gaps), 3.6)["word"] == word


def test_a_run_without_a_final_loss_has_diverged() -> None:
    seeds = [{"candidate": {"final_loss": None}, "reference": {"final_loss": 1.4}}] * 2
    found = compare_convergence({"seeds": seeds, "start_loss": 3.6, "noise": []})
    assert found.agrees is None
    assert found.predicted["verdict"]["word"] == "diverged"


def test_noise_is_told_by_layer_with_its_interval() -> None:
    seeds = [[{"layer": "up", "shape": [2, 2], "update_8bit": error}] for error in (0.01, 0.02, 0.03)]
    (row,) = noise_by_layer(seeds)
    assert (row["layer"], row["shape"]) == ("up", [2, 2])
    assert row["update_8bit"] == pytest.approx([0.02, 0.02 - 4.303 * 0.01 / 3**0.5, 0.02 + 4.303 * 0.01 / 3**0.5])


def test_options_have_defaults_and_bounds() -> None:
    assert read_options({}) == {"steps": 200, "seeds": 5, "ranks": 1}
    with pytest.raises(InvalidRequest):
        read_options({"learning_rate": 0, "steps": 10**9})
