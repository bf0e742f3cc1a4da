"""The search against a loop over single estimates, and with bounds against without, on random small problems.

PP, EP, offload and hybrid sharding are among their axes.

The loop is slow on purpose: a few problems here, a thousand with
`SEARCH_PROBLEMS=1000 pytest tests/planner/search -m slow`.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from planner.search.candidates import ORDERS
from planner.search.found import Found
from planner.search.problem import PlanProblem
from planner.search.rank import Candidate, Ranking, nearest_misses
from planner.search.scan import scan
from tests.planner.search.naive import naive
from tests.planner.search.problems import billed_at_random, random_problem, wider_problem


def scanned(problem: PlanProblem, *, prune: bool) -> Found:
    return scan(problem, lambda done, total: None, lambda: False, prune=prune)


def compare(seed: int) -> bool:
    """True where the problem had a feasible candidate."""
    problem = billed_at_random(random_problem(seed), seed)
    found = scanned(problem, prune=False)
    slow = naive(problem)
    # A dearer objective than cost keeps candidates without a price, which the loop, made of prices, never tries.
    unpriced = [group for group in found.feasible if np.isnan(group.usd).any()]
    assert sum(found.rejected.values()) + found.feasible_count == found.candidates
    if unpriced:
        return False
    assert found.feasible_count == len(slow.rows), seed
    ranking = Ranking(found.feasible, found.fleet, problem.objective)
    assert len(ranking) == 0 or len(slow.rows) > 0
    if not slow.rows:
        return False
    first = ranking.order[0]
    best = tuple(float(ranking.columns[name][first]) for name in ORDERS[problem.objective][:3])
    assert best == slow.best(problem.objective), seed
    hours, usd = ranking.columns["hours"], ranking.columns["usd"]
    assert {(float(hours[row]), float(usd[row])) for row in ranking.frontier()} == slow.frontier, seed
    return True


def test_the_search_finds_what_a_loop_finds() -> None:
    assert sum(compare(seed) for seed in range(8)) > 2


def told(one: Candidate) -> tuple[Any, ...]:
    """What makes a candidate this one and no other, with its numbers."""
    layout, recipe = one.scenario.layout, one.source.recipe
    columns = tuple(getattr(layout, item.name)[0, 0].item() for item in fields(layout))
    kinds = (recipe.engine, recipe.zero_stage, recipe.precision.name, recipe.optimizer.name, recipe.schedule)
    numbers = (one.total, one.hours, one.step_seconds, one.over_bytes)
    return (
        *columns,
        *kinds,
        recipe.recompute,
        recipe.offload,
        one.machine,
        *(None if np.isnan(number) else number for number in numbers),
    )


def shown(problem: PlanProblem, found: Found) -> list[Any]:
    """Everything that an answer takes from a scan but its counts."""
    ranking = Ranking(found.feasible, found.fleet, problem.objective)
    rows = [*ranking.places(), *ranking.frontier()]
    quickest = ranking.fastest()
    rows += [] if quickest is None else [quickest]
    misses = [(reason, told(one)) for reason, one in nearest_misses(problem, found)]
    return [*(told(ranking.candidate(int(row))) for row in rows), misses, found.fitting, found.rejected["memory"]]


def spared(problem: PlanProblem) -> Counter[str]:
    """Candidates that the bounds ruled out, after a check that nothing else is shown with than without them."""
    pruned, whole = scanned(problem, prune=True), scanned(problem, prune=False)
    assert shown(problem, pruned) == shown(problem, whole), problem.request
    assert sum(pruned.rejected.values()) + pruned.feasible_count == pruned.candidates == whole.candidates
    assert whole.spared == 0
    return Counter(slower=pruned.rejected["slower"], all=pruned.spared)


def test_bounds_lose_nothing_that_an_answer_shows() -> None:
    small = sum((spared(random_problem(seed)) for seed in range(3020, 3036)), Counter())
    wide = sum((spared(wider_problem(seed)) for seed in range(8)), Counter())
    assert small["all"] > 0
    assert wide["slower"] > 0


PROBLEMS = int(os.environ.get("SEARCH_PROBLEMS", "20"))


@pytest.mark.slow
def test_bounds_lose_nothing_in_many_problems() -> None:
    small = sum((spared(random_problem(seed)) for seed in range(4000, 4000 + PROBLEMS)), Counter())
    wide = sum((spared(wider_problem(seed)) for seed in range(1000, 1000 + PROBLEMS // 4)), Counter())
    assert small["all"] > PROBLEMS // 2
    assert wide["slower"] > PROBLEMS // 2


@pytest.mark.slow
def test_the_search_finds_what_a_loop_finds_in_many_problems() -> None:
    assert sum(compare(seed) for seed in range(1000, 1000 + PROBLEMS)) > PROBLEMS // 8
