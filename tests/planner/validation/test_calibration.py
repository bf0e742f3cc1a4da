"""Ranges learnt from stored measurements: held out, versioned, revertible, and said in every answer."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from accounting.estimate import estimate, need_of
from accounting.evidence import Evidence, Point
from accounting.facts.bands import BANDS, Band
from accounting.memory.device import ranges_of
from planner.plans.running import plan_execute
from planner.plans.services import plan_create
from planner.requests import context_for, read_estimate
from planner.teams.models import Team
from planner.validation.calibration import (
    LEAST,
    Pair,
    band_of,
    calibration_use,
    evidence_in_force,
    learnt,
    shipped_points,
)
from planner.validation.learning import calibration_learn, measured_pairs
from planner.validation.models import CalibrationSet, ValidationRun
from planner.validation.shipped import MODEL, request
from tests.people import Caller
from tests.planner.validation.payloads import CONTEXT

PLAN = {
    "model": {"config": MODEL},
    "workload": {"tokens": 1_000_000_000, "sequence_length": 4096},
    "hardware": {"accelerators": ["h100-sxm5-80gb"], "max_count": 16},
    "engines": ["fsdp2"],
    "precisions": ["bf16-mixed"],
}
HERE = Point(parameters=8_000_000_000, devices=8, tokens=4096)


def pairs(ratios: list[float]) -> list[Pair]:
    return [Pair(str(number), "fsdp2", 10**9, int(10**9 * ratio), HERE) for number, ratio in enumerate(ratios)]


def test_a_row_is_judged_on_what_it_was_not_fitted_on() -> None:
    (row,) = learnt(pairs([1.2] * 60))
    assert row["fitted_on"] + row["held_out"] == 60
    assert (row["kept"], row["inside_band"]) == (True, 1.0)
    assert row["error_after"] < 1e-6 < row["error_before"]
    assert row["points"] == [[8_000_000_000, 8, 4096, row["fitted_on"]]]
    assert learnt(pairs([1.2] * LEAST)) == []


def test_repetitions_of_a_configuration_stand_on_one_side() -> None:
    assert learnt([replace(pair, key="same") for pair in pairs([1.2] * 60)]) == []


def test_a_factor_that_makes_held_out_errors_larger_only_widens_the_range() -> None:
    found = [replace(pair, measured=10**9 if pair.held_out else 2 * 10**9) for pair in pairs([1.0] * 60)]
    (row,) = learnt(found)
    assert row["kept"] is False
    band = band_of(row)
    shipped = BANDS["fsdp2"]
    assert (band.factor, band.low, band.high) == (1.0, shipped.low, 2.0)
    assert band.runs == shipped.runs + row["fitted_on"]


def test_distance_counts_doublings() -> None:
    assert HERE.doublings(HERE) == 0
    assert HERE.doublings(Point(parameters=4_000_000_000, devices=32, tokens=4096)) == pytest.approx(3)


def test_every_shipped_range_has_the_configurations_it_was_fitted_on() -> None:
    runs = {name: sum(point.runs for point in points) for name, points in shipped_points().items()}
    assert {name: runs[name] for name in BANDS} == {name: band.runs for name, band in BANDS.items()}


@pytest.mark.parametrize(("factor", "low", "high"), [(0.8, 0.7, 0.9), (1.25, 1.1, 1.5)])
def test_a_learnt_range_moves_expectation_range_and_the_searchs_floor(factor: float, low: float, high: float) -> None:
    plain = read_estimate(request("fsdp2", 3, 8), CONTEXT)
    known = Evidence(version=7, bands={"fsdp2": Band(low=low, high=high, runs=12, factor=factor)})
    moved = read_estimate(request("fsdp2", 3, 8), replace(CONTEXT, evidence=known))
    before, after = (estimate(scenario).row(0)["memory"] for scenario in (plain, moved))
    assert after["device_bytes"] == round(before["device_bytes"] * factor)
    assert after["device_bytes_band"][0] == int(before["device_bytes"] * low)
    assert after["peak_allocated_bytes"] == before["peak_allocated_bytes"]
    overhead = {row["name"]: row["bytes"] for row in after["overhead"]}
    assert after["peak_allocated_bytes"] + sum(overhead.values()) == after["device_bytes"]
    assert "set 7" in after["overhead"][-1]["note"]
    assert after["evidence"] == {
        "range": "fsdp2", "measurements": 12, "calibration": 7, "nearest": None, "why": None,
    }  # fmt: skip
    assert int(need_of(moved).expected[0, 0]) == after["device_bytes"]


def test_ranges_of_another_engine_stay_as_they_are() -> None:
    known = Evidence(version=7, bands={"ddp": Band(low=0.5, high=2.0, runs=12, factor=1.5)})
    plain, other = (
        estimate(read_estimate(request("fsdp2", 3, 8), context)).row(0)["memory"]
        for context in (CONTEXT, replace(CONTEXT, evidence=known))
    )
    assert plain == other


@pytest.fixture
def catalog(db: None) -> None:
    call_command("load_catalog", verbosity=0)


def imported(team: Team, number: int, ratio: float) -> ValidationRun:
    """A stored import of a configuration of its own: `ratio` of what the formulas say of it."""
    asked = request("fsdp2", 3, 8, headroom=number / 1000, model={"config": MODEL})
    measured = int(estimate(read_estimate(asked, CONTEXT)).device_bytes[0, 0] * ratio)
    answer = {"measured_request": asked, "measured": {"device_bytes": measured, "step_seconds": 2.0}}
    return ValidationRun.objects.create(
        team=team, kind="import", request=json.dumps({"request": asked}), request_digest="x", status="succeeded",
        answer=json.dumps(answer), finished_at=timezone.now(), sharding_engine="fsdp2", accelerator="h100-sxm5-80gb",
        agrees=False,
    )  # fmt: skip


def answered(team: Team) -> dict[str, Any]:
    return estimate(read_estimate(request("fsdp2", 3, 8), context_for(team))).row(0)["memory"]


@pytest.mark.django_db
@pytest.mark.usefixtures("catalog")
def test_a_set_is_learnt_put_in_force_and_taken_back(team: Team, owner: Caller) -> None:
    shipped = answered(team)
    assert shipped["evidence"]["measurements"] == BANDS["fsdp2"].runs
    assert shipped["evidence"]["nearest"]["doublings"] < 3
    assert calibration_learn() is None
    for number in range(40):
        imported(team, number, 1.10 + 0.001 * (number % 5))
    first = calibration_learn()
    assert first is not None
    after = answered(team)
    assert after["device_bytes"] == pytest.approx(1.102 * shipped["device_bytes"], rel=0.002)
    assert after["evidence"]["calibration"] == 1
    assert after["evidence"]["nearest"]["doublings"] == 0
    door = owner.post("/api/v1/estimates/", request("fsdp2", 3, 8)).json()
    assert door["memory"] == json.loads(json.dumps(after))
    # A second set counts from the formulas, not from the first set.
    assert {round(pair.ratio, 2) for pair in measured_pairs()} == {1.10}
    for number in range(40, 90):
        imported(team, number, 0.8)
    second = calibration_learn()
    assert second is not None
    assert (second.version, CalibrationSet.objects.get(in_force=True).version) == (2, 2)
    listed = owner.get("/api/v1/validations/calibrations/").json()["results"]
    assert [(row["version"], row["in_force"]) for row in listed] == [(2, True), (1, False)]
    assert "points" not in listed[0]["rows"][0]
    calibration_use(version=1)
    assert answered(team) == after
    calibration_use(version=None)
    assert answered(team) == shipped


@pytest.mark.django_db
@pytest.mark.usefixtures("catalog")
def test_a_plan_rests_on_the_set_in_force_as_its_estimates_do(team: Team) -> None:
    for number in range(40):
        imported(team, number, 1.25)
    assert calibration_learn() is not None
    run, _ = plan_create(team=team, user=None, payload=PLAN, enqueue=False)
    assert plan_execute(plan_id=run.pk)
    run.refresh_from_db()
    answer = json.loads(run.answer)
    assert answer["provenance"]["calibration"] == 1
    best = answer["recommendation"]
    again = estimate(read_estimate(best["estimate"], context_for(team))).row(0)["memory"]
    assert best["device_bytes"] == again["device_bytes"]
    assert best["answer"]["memory"]["evidence"] == json.loads(json.dumps(again["evidence"]))
    assert again["evidence"]["calibration"] == 1
    assert again["device_bytes_band"][1] <= again["capacity_bytes"]


@pytest.mark.django_db
@pytest.mark.usefixtures("catalog")
def test_a_set_of_another_engine_version_is_left_alone(team: Team) -> None:
    for number in range(40):
        imported(team, number, 1.3)
    assert calibration_learn() is not None
    CalibrationSet.objects.update(engine_version="0.0.0")
    assert evidence_in_force().version is None


@pytest.mark.django_db
@pytest.mark.usefixtures("catalog")
def test_the_command_learns_goes_back_and_names_what_there_is(team: Team) -> None:
    out = StringIO()
    call_command("validate", "--calibrate", stdout=out)
    assert "too few measurements" in out.getvalue()
    for number in range(40):
        imported(team, number, 1.2)
    call_command("validate", "--calibrate", stdout=out)
    assert "calibration set 1, in force, from 40 measurements" in out.getvalue()
    call_command("validate", "--use", "none", stdout=out)
    assert evidence_in_force().version is None
    with pytest.raises(Exception, match="there are: 1"):
        call_command("validate", "--use", "9", stdout=out)


def test_the_name_of_a_range_is_its_engines() -> None:
    asked = deepcopy(request("ddp", 0, 1))
    names, chosen = ranges_of(estimate(read_estimate(asked, CONTEXT)).context)
    assert (names, int(chosen[0, 0])) == (("ddp",), 0)
