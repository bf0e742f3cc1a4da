"""Dollars are what is billed: whole periods, the finer terms for short jobs, and what is not known said in words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from planner.search.problem import PlanProblem
from tests.planner.search.problems import problem_of
from tests.planner.search.test_answer import answer_of


def billed_by(problem: PlanProblem, period: int, minimum: int | None = None) -> PlanProblem:
    terms = {"billing_period_seconds": period, "billing_minimum_seconds": minimum}
    return replace(problem, offers=tuple(replace(offer, **terms) for offer in problem.offers))


def test_an_hour_begun_is_an_hour_paid() -> None:
    problem = problem_of(("/workload/tokens", 3 * 10**8))
    exact, hourly = answer_of(billed_by(problem, 1)), answer_of(billed_by(problem, 3600))
    for option in hourly["options"]:
        assert option["usd"] == pytest.approx(math.ceil(option["hours"]) * option["usd_per_hour"])
        low, high = option["hours_band"]
        assert option["usd_band"] == pytest.approx(
            [math.ceil(low) * option["usd_per_hour"], math.ceil(high) * option["usd_per_hour"]]
        )
    assert hourly["recommendation"]["usd"] > exact["recommendation"]["usd"]


def test_a_short_job_goes_to_the_finer_billing_and_a_long_one_to_the_lower_price() -> None:
    problem = problem_of(("/workload/tokens", 3 * 10**8), ("/hardware/providers", ["aws"]))
    own = problem.offers[0]
    coarse = replace(own, region="coarse", billing_period_seconds=36_000, billing_minimum_seconds=None)
    fine = replace(own, region="fine", usd_per_hour=own.usd_per_hour * 1.05, billing_period_seconds=1)
    dear = replace(fine, region="dear", usd_per_hour=own.usd_per_hour * 1.1)
    short = replace(problem, offers=(coarse, fine, dear), offer_nodes=problem.offer_nodes[:1] * 3)
    assert answer_of(short)["recommendation"]["offer"]["region"] == "fine"
    assert answer_of(replace(short, tokens=10**12))["recommendation"]["offer"]["region"] == "coarse"
    assert {row["offer"]["region"] for row in answer_of(short)["options"]} == {"coarse", "fine"}


def test_unknown_billing_is_said_where_an_hour_matters() -> None:
    unknown = problem_of(("/workload/tokens", 3 * 10**8))
    unknown = replace(unknown, offers=tuple(replace(offer, billing_period_seconds=None) for offer in unknown.offers))
    assert any("usage is rounded up is not known" in said for said in answer_of(unknown)["warnings"])
    assert not any("usage is rounded up" in said for said in answer_of(replace(unknown, tokens=10**13))["warnings"])
    assert not any("usage is rounded up" in said for said in answer_of(billed_by(unknown, 60))["warnings"])


@pytest.mark.parametrize(("often", "said"), [(None, "failures, not preemptions"), (0.05, "count 0.05 preemptions")])
def test_a_spot_warning_says_what_was_counted(often: float | None, said: str) -> None:
    machines = ("/hardware", {"accelerators": ["h100-sxm5-80gb"], "pricing": ["spot"], "max_count": 8})
    answer = answer_of(problem_of(machines, ("/goodput/preemptions_per_device_hour", often)))
    assert any(said in warning for warning in answer["warnings"])
