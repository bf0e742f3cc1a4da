"""The two lower bounds against what the whole evaluation says, row by row; memory in two parts against memory whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from accounting.constraints import reasons
from accounting.estimate import estimate, memory_of, need_of
from accounting.memory.outside import host_bytes_per_rank
from accounting.partition import partition_of
from accounting.scenario import Scenario
from accounting.standing import standing_of
from accounting.step_time import repeated_of, step_seconds
from accounting.unread import BatchRead, Unread
from planner.search.bounds import least_seconds
from planner.search.grid import layouts
from planner.search.machines import machine_choices
from planner.search.recipes import recipes, refusal
from planner.search.sites import fleet_of, sites_of
from tests.planner.search.problems import adapter_problem, random_problem, wider_problem


def scenarios(seed: int) -> Iterator[Scenario]:
    """What a search of three random problems evaluates, at most 200 rows of a batch."""
    for problem in (random_problem(seed), wider_problem(seed), adapter_problem(seed)):
        machines = machine_choices(problem)
        for recipe in recipes(problem):
            sites, _ = sites_of(problem, machines, recipe.engine)
            if refusal(recipe) is not None or not len(sites.count):
                continue
            for batch in layouts(problem, recipe, sites):
                good = np.flatnonzero((reasons(recipe, batch.layout)[:, 0] == 0) & ~batch.unbalanced)[:200]
                if len(good):
                    yield fleet_of(machines).scenario(recipe, batch.layout.take(good), sites.first[batch.site[good]])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bounds_are_below_what_they_bound(seed: int) -> None:
    shares: list[float] = []
    for scenario in scenarios(seed):
        known = estimate(scenario)
        standing = standing_of(scenario)
        assert (standing.floor_bytes(upper=False) <= known.device_bytes[:, 0]).all()
        assert (standing.floor_bytes(upper=True) <= known.device_bytes_high[:, 0]).all()
        least = least_seconds(scenario, repeated_of(scenario))
        timed = np.isfinite(known.timing.step_seconds)
        assert (least[timed] <= known.timing.step_seconds[timed]).all()
        shares += (least[timed] / known.timing.step_seconds[timed]).tolist()
    assert len(shares) > 50
    # A bound that is nowhere near what it bounds would rule nothing out.
    assert max(shares) > 0.7


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_memory_in_two_parts_is_memory_to_the_bit(seed: int) -> None:
    for scenario in scenarios(seed):
        _, ledger, device = memory_of(scenario)
        needed = need_of(scenario)
        worst = np.argmax(device.total, axis=1).reshape(-1, 1)
        assert np.array_equal(needed.expected, np.take_along_axis(device.total, worst, axis=1))
        assert np.array_equal(needed.upper, np.take_along_axis(device.high, worst, axis=1))
        assert np.array_equal(needed.host_per_rank, host_bytes_per_rank(ledger))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_blocks_timed_once_are_every_candidates_own_to_the_bit(seed: int) -> None:
    fewer = 0
    for scenario in scenarios(seed):
        partition = partition_of(scenario)
        repeated = repeated_of(scenario)
        fewer += len(scenario) > repeated.index.max() + 1
        alone, once = step_seconds(scenario, partition), step_seconds(scenario, partition, repeated=repeated)
        assert np.array_equal(alone, once, equal_nan=True)
        rows = np.arange(len(scenario) - 1, -1, -2, dtype=np.int64)
        taken = scenario.take(rows)
        some = step_seconds(taken, partition_of(taken), repeated=repeated.take(rows))
        assert np.array_equal(some, alone[rows], equal_nan=True)
    assert fewer


def test_what_stands_is_worked_out_once_for_all_micro_batches() -> None:
    several = next(one for one in scenarios(3) if standing_of(one).index[-1] + 1 < len(one))
    standing = standing_of(several)
    moving = {line.key for line in standing.moving}
    assert "activations.blocks" in moving
    assert {"states.parameters", "states.optimizer"} <= {row.line.key for row in standing.ledger.rows}


def test_nobody_can_read_a_batch_that_is_not_there() -> None:
    unread = Unread()
    numbers = np.arange(3)
    for use in (
        lambda: numbers * unread,
        lambda: np.maximum(unread, 1),
        lambda: unread > 1,
        lambda: np.where(numbers > 1, unread, 0),
        lambda: -(-np.asarray(unread) // 2),
        lambda: bool(unread),
        lambda: unread.shape,
    ):
        with pytest.raises(BatchRead):
            use()


def test_a_bound_grows_with_the_bubble() -> None:
    scenario = next(one for one in scenarios(2) if (one.layout.pp > 1).any())
    more = replace(scenario, layout=replace(scenario.layout, micro_batches=scenario.layout.micro_batches * 2))
    deep = scenario.layout.pp[:, 0] > 1
    before, after = (least_seconds(one, repeated_of(one)) for one in (scenario, more))
    assert (after[deep] < 2 * before[deep]).all()
    assert (after[~deep] == 2 * before[~deep]).all()
