"""docs/scenarios.md says who wins: the cheap scenarios always, all of them with `-m slow`."""

from __future__ import annotations

import pytest

from planner.plans.scenario_page import PAGE, section, winners
from planner.plans.scenario_rows import SCENARIOS
from planner.plans.scenarios import Scenario, answer_of, identity, shipped_context
from planner.requests import RequestContext

CHEAP = {"full-fine-tune-7b", "lora-8b-on-24-gb", "slow-ethernet"}
REWRITE = "the winner changed: look whether that is right, then python3 manage.py write_scenarios"


@pytest.fixture(scope="module")
def context() -> RequestContext:
    return shipped_context()


def cases() -> list[object]:
    marks = {scenario.key: () if scenario.key in CHEAP else (pytest.mark.slow,) for scenario in SCENARIOS}
    return [pytest.param(row, id=row.key, marks=marks[row.key]) for row in SCENARIOS]


@pytest.mark.parametrize("scenario", cases())
def test_the_page_names_the_winner(scenario: Scenario, context: RequestContext) -> None:
    said = winners(PAGE.read_text(encoding="utf-8"))
    answer = answer_of(scenario, context)
    assert said[scenario.title] == identity(answer["recommendation"]), REWRITE
    assert winners(section(scenario, answer)) == {scenario.title: said[scenario.title]}


def test_the_page_has_every_scenario_and_no_other() -> None:
    assert set(winners(PAGE.read_text(encoding="utf-8"))) == {scenario.title for scenario in SCENARIOS}
    assert len({scenario.key for scenario in SCENARIOS}) == 10


def test_zero_three_loses_behind_slow_ethernet(context: RequestContext) -> None:
    scenario = next(row for row in SCENARIOS if row.key == "slow-ethernet")
    best = answer_of(scenario, context)["recommendation"]
    assert best["estimate"]["sharding"]["zero_stage"] < 3
    search = {"search": {"zero_stages": [3]}}
    sharded = answer_of(
        Scenario(key="", title="", request={**scenario.request, **search}, checks="", right=""), context
    )["recommendation"]
    assert sharded["hours"] > 1.5 * best["hours"]
