"""Pass one: every candidate judged in batches, few columns kept of each; what is dropped is counted by reason.

Order of the gates: engine, degrees, domain, the rules of accounting.constraints, batch, memory size known, memory, host
memory, speed known, throughput, price, deadline, budget. A candidate is counted at the first it does not pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accounting.constraints import RULES, reasons
from accounting.cost import Interruptions, RunCost, run_cost
from accounting.estimate import limit_bytes, need_of
from accounting.partition import partition_of
from accounting.scenario import Layout, Recipe, Scenario
from accounting.step_time import Timing, step_time
from planner.search.candidates import Candidates, closest, joined, wanted
from planner.search.grid import CELLS, Layouts, combinations, layouts
from planner.search.machines import MachineChoice, machine_choices
from planner.search.problem import PlanProblem
from planner.search.recipes import recipes, refusal
from planner.search.sites import Fleet, Sites, Whole, fleet_of, sites_of

NEAREST = 3
"""Near misses shown of each kind."""
MOST_HELD = 65_536
"""Feasible rows of a recipe held before those that nothing can want are let go."""

Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]


class SearchCancelled(Exception):
    """The caller no longer wants the answer."""


@dataclass(slots=True)
class Found:
    """What a scan found."""

    fleet: Fleet
    candidates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    feasible: list[Candidates] = field(default_factory=list)
    feasible_count: int = 0
    too_big: list[Candidates] = field(default_factory=list)
    """Closest candidates that do not fit in memory; nobody has timed them."""
    too_slow: list[Candidates] = field(default_factory=list)
    too_dear: list[Candidates] = field(default_factory=list)

    @property
    def machines(self) -> tuple[MachineChoice, ...]:
        """What `Candidates.machine` points into."""
        return self.fleet.machines

    def reject(self, reason: str, count: int) -> None:
        """Count candidates lost at one gate."""
        if count:
            self.rejected[reason] += count


def cost_of(problem: PlanProblem, scenario: Scenario, timing: Timing) -> RunCost:
    """Hours and dollars of a problem's whole job on each candidate."""
    goodput = problem.goodput
    return run_cost(
        step_seconds=timing.step_seconds,
        tokens_per_step=scenario.layout.tokens_per_step,
        count=scenario.layout.count,
        usd_per_device_hour=scenario.machine.usd_per_device_hour,
        power_watts=scenario.machine.power_watts,
        tokens=problem.tokens,
        interruptions=Interruptions(
            checkpoint_seconds=goodput.checkpoint_seconds,
            restart_seconds=goodput.restart_seconds,
            failures_per_device_hour=goodput.failures_per_device_hour,
        ),
    )


def scan(problem: PlanProblem, progress: Progress, cancelled: Cancelled) -> Found:
    """Every candidate of a problem, judged. Raises SearchCancelled between batches."""
    machines = machine_choices(problem)
    found = Found(fleet_of(machines))
    sites = {engine: sites_of(problem, machines, engine) for engine in problem.engines}
    runnable: list[Recipe] = []
    for recipe in recipes(problem):
        here, unsupported = sites[recipe.engine]
        refused = refusal(recipe)
        found.reject("engine_unsupported", unsupported)
        if refused is None:
            runnable.append(recipe)
        else:
            found.reject(refused, int(here.weight.sum()))
    decided = sum(found.rejected.values())
    found.candidates, done = decided, decided
    total = decided + sum(combinations(problem, recipe, sites[recipe.engine][0]) for recipe in runnable)
    for recipe in runnable:
        judge = Judge(problem, recipe, sites[recipe.engine][0], found)
        for batch in layouts(problem, recipe, judge.sites):
            if cancelled():
                raise SearchCancelled
            judge.take(batch)
            done += batch.visited
            progress(done, total)
        judge.finish()
    return found


@dataclass(slots=True)
class Judge:
    """One recipe's way through the gates."""

    problem: PlanProblem
    recipe: Recipe
    sites: Sites
    found: Found
    good: list[Candidates] = field(default_factory=list)
    held: int = 0
    big: list[Candidates] = field(default_factory=list)

    def take(self, batch: Layouts) -> None:
        """Judge one batch of layouts on all their machines."""
        for reason, count in batch.rejected.items():
            self.found.reject(reason, count)
        weight = self.sites.weight[batch.site]
        self.found.candidates += sum(batch.rejected.values()) + int(weight.sum())
        good = self._by_rules(batch, weight)
        if len(good):
            self._on_machines(batch.layout.take(good), batch.site[good])

    def finish(self) -> None:
        """Hand over what is worth keeping."""
        if self.good:
            self.found.feasible.append(wanted(joined(self.good), self.problem.objective))
        if self.big:
            every = joined(self.big)
            self.found.too_big.append(closest(every, every.over, NEAREST))

    def _by_rules(self, batch: Layouts, weight: Whole) -> Whole:
        """Rows that break no rule; each broken row is counted under its first rule."""
        bits = reasons(self.recipe, batch.layout)[:, 0]
        for index in range(len(RULES)):
            # The lowest bit set is the first rule broken.
            self.found.reject(RULES[index].reason, int(weight[(bits & -bits) == 1 << index].sum()))
        unbalanced = (bits == 0) & batch.unbalanced
        self.found.reject("batch", int(weight[unbalanced].sum()))
        return np.flatnonzero((bits == 0) & ~batch.unbalanced)

    def _on_machines(self, layout: Layout, site: Whole) -> None:
        fleet = self.found.fleet
        need, expected, host = self._need(layout, site)
        both = (need, expected)
        row, machine = self.sites.expand(site)
        capacity = fleet.capacity[machine]
        unknown = capacity < 0
        self.found.reject("memory_unknown", int(unknown.sum()))
        limit = limit_bytes(capacity, self.problem.constraints.memory_headroom)
        over = need[row] - limit
        missed = np.flatnonzero(~unknown & (over > 0))
        self.found.reject("memory", len(missed))
        if len(missed):
            big = self._untimed(layout, row[missed], machine[missed], both, limit[missed])
            self.big.append(closest(big, over[missed], NEAREST))
        fitting = np.flatnonzero(~unknown & (over <= 0))
        row, machine, limit = row[fitting], machine[fitting], limit[fitting]
        hosted = np.flatnonzero(~self._short_of_host_memory(host[row], machine, layout.count[row, 0]))
        for start in range(0, len(hosted), CELLS):
            part = hosted[start : start + CELLS]
            here = self._untimed(layout, row[part], machine[part], both, limit[part])
            self._gates(priced(self.problem, fleet, here))

    def _need(self, layout: Layout, site: Whole) -> tuple[Whole, Whole, Whole]:
        """(bytes that must fit, bytes expected, host bytes of one rank) of each layout."""
        scenario = self.found.fleet.scenario(self.recipe, layout, self.sites.first[site])
        needed = need_of(scenario)
        upper = self.problem.constraints.risk == "upper"
        expected = needed.expected[:, 0]
        return needed.upper[:, 0] if upper else expected, expected, needed.host_per_rank[:, 0]

    def _short_of_host_memory(self, host: Whole, machine: Whole, count: Whole) -> NDArray[np.bool_]:
        """Rows whose node has not the host memory that offloading needs; an unknown one rules nothing out."""
        fleet = self.found.fleet
        ranks = np.minimum(np.maximum(fleet.node_devices[machine], 1), count)
        short = (fleet.host_memory[machine] >= 0) & (host * ranks > fleet.host_memory[machine])
        self.found.reject("host_memory", int(short.sum()))
        return short

    def _untimed(
        self, layout: Layout, row: Whole, machine: Whole, both: tuple[Whole, Whole], limit: Whole
    ) -> Candidates:
        """Rows before anybody has timed them; `both` is what each layout needs and what it is expected to need."""
        need, expected = (values[row] for values in both)
        unknown = np.full(len(row), np.nan)
        return Candidates(
            self.recipe, layout.take(row), machine, need, expected, limit, unknown, unknown, unknown, unknown
        )

    def _gates(self, here: Candidates) -> None:
        limits, found = self.problem.constraints, self.found
        here = self._pass(here, np.isfinite(here.step_seconds), "time_unknown")
        if limits.min_tokens_per_second is not None:
            here = self._pass(here, here.tokens_per_second >= limits.min_tokens_per_second, "throughput")
        if self.problem.objective == "cost" or limits.budget_usd is not None:
            here = self._priced_only(here)
        if limits.deadline_hours is not None and self.problem.tokens is not None:
            late = here.hours > limits.deadline_hours
            found.too_slow += _nearest(here.take(np.flatnonzero(late)), "hours")
            here = self._pass(here, ~late, "deadline")
        if limits.budget_usd is not None and self.problem.tokens is not None:
            dear = here.usd > limits.budget_usd
            found.too_dear += _nearest(here.take(np.flatnonzero(dear)), "usd")
            here = self._pass(here, ~dear, "budget")
        found.feasible_count += len(here)
        if len(here):
            self._hold(here)

    def _hold(self, here: Candidates) -> None:
        self.good.append(here)
        self.held += len(here)
        if self.held > MOST_HELD:
            self.good = [wanted(joined(self.good), self.problem.objective)]
            self.held = len(self.good[0])

    def _priced_only(self, here: Candidates) -> Candidates:
        priced_rows = np.isfinite(here.usd_per_hour)
        if priced_rows.all():
            return here
        machines = self.found.machines
        for index in np.unique(here.machine[~priced_rows]):
            lost = int((~priced_rows & (here.machine == index)).sum())
            self.found.reject(machines[index].no_price, lost)
        return here.take(np.flatnonzero(priced_rows))

    def _pass(self, here: Candidates, good: NDArray[np.bool_], reason: str) -> Candidates:
        self.found.reject(reason, int((~good).sum()))
        return here if good.all() else here.take(np.flatnonzero(good))


def priced(problem: PlanProblem, fleet: Fleet, here: Candidates) -> Candidates:
    """The same rows with their time and cost."""
    scenario = fleet.scenario(here.recipe, here.layout, here.machine)
    timing = step_time(scenario, partition_of(scenario), need=here.expected.reshape(-1, 1))
    cost = cost_of(problem, scenario, timing)
    columns = (cost.hours, cost.usd, cost.usd_per_hour, timing.step_seconds)
    bytes_of = (here.need, here.expected, here.limit)
    return Candidates(here.recipe, here.layout, here.machine, *bytes_of, *(c[:, 0] for c in columns))


def _nearest(missed: Candidates, name: str) -> list[Candidates]:
    return [closest(missed, getattr(missed, name), NEAREST)] if len(missed) else []
