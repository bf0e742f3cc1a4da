"""How fast candidates are judged, as a ratio to a loop over the same functions in the same run.

Seconds depend on the machine and on who else uses it; the ratio of two rates taken in turns hardly does. `-s` prints
the rates.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from accounting import estimate
from accounting.scenario import Scenario
from planner.requests import read_plan
from planner.search.grid import layouts
from planner.search.machines import machine_choices
from planner.search.pricing import cost_of
from planner.search.problem import PlanProblem
from planner.search.recipes import recipes
from planner.search.sites import fleet_of, sites_of
from tests.planner.requests.samples import CONTEXT, PLAN, put

LEAST_RATIO = 100
GOAL_RATIO = 300
ROUNDS = 3
LOOPED = 24


def whole_catalog() -> PlanProblem:
    return read_plan(put(PLAN, ("/hardware", {"pricing": ["on-demand"], "max_count": 256})), CONTEXT)


@pytest.fixture(scope="module")
def candidates() -> tuple[PlanProblem, Scenario]:
    """Some ten thousand candidates of one recipe: every layout on its first machine, four times over."""
    problem = whole_catalog()
    machines = machine_choices(problem)
    recipe = next(one for one in recipes(problem) if one.engine.value == "fsdp2" and one.zero_stage == 3)
    sites, _ = sites_of(problem, machines, recipe.engine)
    batch = next(layouts(problem, recipe, sites))
    good = np.tile(np.flatnonzero(~batch.unbalanced), 4)
    scenario = fleet_of(machines).scenario(recipe, batch.layout.take(good), sites.first[batch.site[good]])
    return problem, scenario


def evaluate(problem: PlanProblem, scenario: Scenario) -> float:
    """Memory, time and dollars of every row; returns something of them so that nothing can be skipped."""
    known = estimate(scenario)
    cost = cost_of(problem, scenario, known.timing.step_seconds)
    return float(np.nansum(cost.usd) + known.device_bytes_high.sum() + known.fits().sum())


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process: what others do on the machine is not in it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def test_a_batch_is_hundreds_of_times_faster_than_a_loop(candidates: tuple[PlanProblem, Scenario]) -> None:
    problem, scenario = candidates
    picked = np.linspace(0, len(scenario) - 1, LOOPED).astype(np.int64)
    alone = [scenario.take(picked[index : index + 1]) for index in range(LOOPED)]
    evaluate(problem, scenario)
    ratios, rates = [], []
    for _ in range(ROUNDS):
        loop = seconds(lambda: [evaluate(problem, one) for one in alone]) / LOOPED
        batch = seconds(lambda: [evaluate(problem, part) for part in scenario.chunks(8192)]) / len(scenario)
        ratios.append(loop / batch)
        rates.append((1 / batch, 1 / loop))
    best = int(np.argmax(ratios))
    print(
        f"\n{len(scenario):,} candidates: {rates[best][0]:,.0f} a second and core in batches, "
        f"{rates[best][1]:,.1f} one at a time: {ratios[best]:,.0f} times (goal {GOAL_RATIO})"
    )
    assert ratios[best] >= LEAST_RATIO
