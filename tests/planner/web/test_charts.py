"""Charts say what the bytes say: widths add up, labels stay inside, nothing depends on one lucky size."""

from __future__ import annotations

import random
from typing import Any

import pytest

from planner.web.charts.labels import around
from planner.web.charts.memory_bar import MemoryBar, memory_bar
from planner.web.charts.scale import LogAxis
from planner.web.charts.scatter import MOST_POINTS, Reading, scatter
from planner.web.charts.scatter_labels import WIDTH, box_of
from planner.web.charts.step_memory import step_memory
from planner.web.charts.step_time import step_time
from planner.web.ledger import read_ledger
from tests.planner.web import answers

GIB = answers.GIB


def bar_of(memory: dict[str, Any], kept_free: float = 0.05) -> MemoryBar:
    band = memory["device_bytes_band"]
    return memory_bar("bar", read_ledger(memory), memory["capacity_bytes"], (band[0], band[1]), kept_free)


def test_ledger_rows_sum_to_the_byte() -> None:
    memory = answers.estimate_answer()["memory"]
    ledger = read_ledger(memory)
    assert sum(row.size for row in ledger.rows) == memory["peak_allocated_bytes"]
    assert sum(row.size for row in (*ledger.rows, *ledger.outside)) == memory["device_bytes"]


def test_empty_buckets_are_left_out_and_keep_their_letter() -> None:
    letters = [row.letter for row in read_ledger(answers.estimate_answer()["memory"]).rows]
    assert letters == ["A", "B", "D", "E", "F", "G", "H", "I"]


def test_segments_lie_side_by_side_and_end_at_the_expected_need() -> None:
    bar = bar_of(answers.estimate_answer()["memory"])
    for left, right in zip(bar.segments, bar.segments[1:], strict=False):
        assert left.x + left.width == pytest.approx(right.x, abs=1e-9)
    assert bar.segments[-1].x + bar.segments[-1].width == pytest.approx(bar.expected, abs=1e-9)


def test_segment_widths_are_shares_of_one_scale() -> None:
    memory = answers.estimate_answer()["memory"]
    bar = bar_of(memory)
    assert bar.capacity is not None
    for segment in bar.segments:
        assert segment.width / bar.capacity == pytest.approx(segment.row.size / memory["capacity_bytes"], rel=1e-3)


@pytest.mark.parametrize("ratio", [0.05, 0.5, 0.95, 1.0, 1.6, 40.0])
def test_everything_stays_inside_at_any_ratio_of_need_to_capacity(ratio: float) -> None:
    memory = answers.estimate_answer()["memory"]
    memory["capacity_bytes"] = int(memory["device_bytes"] / ratio)
    bar = bar_of(memory)
    assert bar.capacity is not None
    assert bar.limit is not None
    places = [bar.low, bar.high, bar.expected, bar.capacity, bar.limit, *(tick.x for tick in bar.ticks)]
    assert all(0 <= place <= 100 for place in places)
    assert bar.low <= bar.expected <= bar.high
    assert bool(bar.over_label) == (ratio > 1)
    assert 2 <= len(bar.ticks) <= 14


def test_bar_without_a_capacity_has_no_capacity_line() -> None:
    memory = answers.estimate_answer()["memory"]
    ledger = read_ledger(memory | {"capacity_bytes": None})
    bar = memory_bar("bar", ledger, None, None, 0.05)
    assert bar.capacity is None
    assert bar.limit is None
    assert ledger.rows[0].of_card == "\u2013"


def test_step_memory_marks_the_peak_at_its_height() -> None:
    memory = answers.estimate_answer()["memory"]
    chart = step_memory(memory)
    assert chart is not None
    assert [phase.value for phase in chart.phases] == ["3.8", "61.9", f"{answers.ALLOCATED / GIB:.1f}", "9.4", "9.3"]
    assert f"peak {answers.ALLOCATED / GIB:.1f}" in chart.peak_label
    assert chart.capacity_y is not None
    assert chart.peak_y > chart.capacity_y


def test_step_memory_is_left_out_where_phases_are_unknown() -> None:
    memory = answers.estimate_answer()["memory"] | {"by_phase": {"forward": None}}
    assert step_memory(memory) is None


def test_step_time_keeps_parts_of_zero_and_fills_the_bar() -> None:
    chart = step_time(answers.estimate_answer()["time"])
    assert chart is not None
    assert sum(part.width for part in chart.parts) == pytest.approx(100)
    assert [part.number for part in chart.parts if part.seconds == "0.00"] == ["\u2013", "\u2013"]
    assert chart.total == "9.10"


def test_step_time_is_left_out_where_the_time_is_unknown() -> None:
    assert step_time(None) is None
    assert step_time({"step_seconds": None}) is None


def test_scatter_places_faster_to_the_left_and_dearer_higher() -> None:
    chart = scatter(answers.points(), Reading(names=answers.NAMES, links={1: "/one/"}, deadline_hours=48))
    assert chart is not None
    assert [mark.x for mark in chart.front] == sorted(mark.x for mark in chart.front)
    frontier = [mark.y for mark in chart.front if mark.state]
    assert frontier == sorted(frontier)
    assert all(0 <= mark.x <= 100 and 0 <= mark.y <= chart.height for mark in (*chart.front, *chart.rest))
    chosen = [mark for mark in chart.front if mark.state == "on"]
    assert [mark.href for mark in chosen] == ["/one/"]
    assert chart.deadline is not None
    assert chart.deadline.at + chart.deadline.size == pytest.approx(100)


def test_each_accelerator_has_its_own_shape() -> None:
    chart = scatter(answers.points(), Reading(names=answers.NAMES))
    assert chart is not None
    assert len({shape for shape, _ in chart.legend}) == len(chart.legend) == 2


def test_unpriced_and_unfitting_points_are_not_drawn() -> None:
    points = [
        {"hours": 1.0, "usd": None, "accelerator": "a", "count": 1},
        {"hours": 1.0, "usd": 5.0, "accelerator": "a", "count": 1, "fits": False},
    ]
    assert scatter(points, Reading()) is None


def test_scatter_draws_at_most_its_limit_and_survives_one_point() -> None:
    point = {"hours": 3.0, "usd": 0.42, "accelerator": "a", "count": 1, "frontier": True, "rank": 1, "fits": True}
    chart = scatter([point] * (MOST_POINTS + 50), Reading())
    assert chart is not None
    assert chart.shown == MOST_POINTS
    alone = scatter([point], Reading())
    assert alone is not None
    assert alone.path == ""
    assert len(alone.x_ticks) >= 1


@pytest.mark.parametrize("seed", range(12))
def test_labels_meet_no_mark_and_no_other_label(seed: int) -> None:
    chance = random.Random(seed)
    hours, usd = 1.0, 10.0 ** chance.uniform(0, 7)
    points = []
    for place in range(chance.choice([1, 2, 5, 40])):
        hours *= 1 + chance.random() * chance.choice([0.01, 0.5])
        usd *= 1 - chance.random() * chance.choice([0.01, 0.3])
        card = {"accelerator": chance.choice(["a", "a-very-long-name"]), "count": chance.choice([1, 8, 4096])}
        points.append(card | {"hours": hours, "usd": usd, "frontier": True, "rank": place + 1})
    chart = scatter(
        points, Reading(chosen_rank=chance.randint(1, len(points)), deadline_hours=chance.choice([None, 3]))
    )
    assert chart is not None
    named = [mark for mark in chart.front if mark.label]
    boxes = [box_of(mark, mark.spot, f"{mark.label} \u00b7 {mark.money}") for mark in named]
    assert len(points) > 5 or named
    for place, box in enumerate(boxes):
        assert box.left >= 0
        assert box.right <= WIDTH
        assert not any(box.shared(other) for other in boxes[place + 1 :])
        assert not any(box.shared(around(mark.x / 100 * WIDTH, mark.y, 5)) for mark in chart.front)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.2), (0.4, 12_000_000.0), (5.0, 40.0)])
def test_log_axis_has_ticks_inside_its_ends(low: float, high: float) -> None:
    axis = LogAxis.around([low, high])
    assert axis.position(low) > 0
    assert axis.position(high) < 1
    assert axis.ticks()
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks())
