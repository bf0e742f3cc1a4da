"""One recipe's way through the gates, a batch of layouts at a time.

Order of the gates: engine, degrees, domain, the rules of accounting.constraints, batch, memory size known, price known
where one is needed, memory, host memory, slower than another layout of its place, speed known, throughput, deadline,
budget. A candidate is counted at the first it does not pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accounting.constraints import RULES, reasons
from accounting.estimate import limit_bytes, need_of
from accounting.scenario import Layout, Recipe, Scenario
from accounting.standing import Standing, standing_of
from accounting.step_time import repeated_of
from planner.search.bounds import least_seconds
from planner.search.candidates import Candidates, closest, joined, wanted
from planner.search.found import Found
from planner.search.grid import CELLS, Layouts, stretches
from planner.search.pricing import paces, priced
from planner.search.problem import PlanProblem
from planner.search.sites import Sites, Whole

MOST_NEAR = 4096
"""Places whose closest miss a recipe holds: more than any request has."""
MOST_PARTS = 32
"""Batches of near misses held before they are joined."""


@dataclass(frozen=True, slots=True)
class _Needs:
    """Bytes of each layout of a batch, (R,)."""

    need: Whole
    """What must fit: the upper end of the range, or the expected value."""
    expected: Whole
    host: Whole
    """Of one rank."""


@dataclass(slots=True)
class Judge:
    """One recipe's way through the gates."""

    problem: PlanProblem
    recipe: Recipe
    sites: Sites
    found: Found
    kind: int
    """The same for recipes that differ in their recomputation alone."""
    good: list[Candidates] = field(default_factory=list)
    held: int = 0
    big: list[Candidates] = field(default_factory=list)
    weak: list[Candidates] = field(default_factory=list)
    late: list[Candidates] = field(default_factory=list)
    dear: list[Candidates] = field(default_factory=list)

    def take(self, batch: Layouts) -> None:
        """Judge one batch of layouts on all their machines."""
        for reason, count in batch.rejected.items():
            self.found.reject(reason, count)
        weight = self.sites.weight[batch.site]
        self.found.candidates += sum(batch.rejected.values()) + int(weight.sum())
        good = self._by_rules(batch, weight)
        for reason, machines in self.sites.barred.items():
            self.found.reject(reason, int(machines[batch.site[good]].sum()))
        good = good[self.sites.open[batch.site[good]] > 0]
        if not len(good):
            return
        layout, site = batch.layout.take(good), batch.site[good]
        standing = self._standing(batch, good, self._scenario(layout, site))
        near = self._near_enough(standing, site)
        for start, end in stretches(layout.pp[near, 0], CELLS):
            part = near[start:end]
            self._on_machines(layout.take(part), site[part], standing.take(part))

    def finish(self) -> None:
        """Hand over what is worth keeping."""
        found = self.found
        if self.good:
            found.feasible.append(wanted(joined(self.good), self.problem.objective))
        for held, into, name in (
            (self.big, found.too_big, "over"),
            (self.weak, found.too_weak, "lag"),
            (self.late, found.too_slow, "hours"),
            (self.dear, found.too_dear, "usd"),
        ):
            if held:
                every = joined(held)
                into.append(closest(every, getattr(every, name), MOST_NEAR))

    def _by_rules(self, batch: Layouts, weight: Whole) -> Whole:
        """Rows that break no rule; each broken row is counted under its first rule."""
        bits = reasons(self.recipe, batch.layout)[:, 0]
        for index in range(len(RULES)):
            # The lowest bit set is the first rule broken.
            self.found.reject(RULES[index].reason, int(weight[(bits & -bits) == 1 << index].sum()))
        unbalanced = (bits == 0) & batch.unbalanced
        self.found.reject("batch", int(weight[unbalanced].sum()))
        return np.flatnonzero((bits == 0) & ~batch.unbalanced)

    def _standing(self, batch: Layouts, rows: Whole, scenario: Scenario) -> Standing:
        """What stands in memory whatever the batch; the recipe before may have asked it of the same rows."""
        known = batch.standing.get(self.kind)
        if known is None or not np.array_equal(known[0], rows):
            known = batch.standing[self.kind] = rows, standing_of(scenario)
        return known[1]

    def _near_enough(self, standing: Standing, site: Whole) -> Whole:
        """Rows that may fit on one of their machines, or miss by little enough to be shown; the others are counted."""
        if not self.found.prune:
            return np.arange(len(site), dtype=np.int64)
        limits = self.problem.constraints
        limit = limit_bytes(self.sites.largest, limits.memory_headroom)[site]
        over = standing.floor_bytes(upper=limits.risk == "upper") - limit
        hopeless = (over > 0) & (over > self.found.near)
        lost = int(self.sites.open[site[hopeless]].sum())
        self.found.reject("memory", lost)
        self.found.spared += lost
        return np.flatnonzero(~hopeless)

    def _on_machines(self, layout: Layout, site: Whole, standing: Standing) -> None:
        needs = self._needs(layout, site, standing)
        fleet = self.found.fleet
        row, machine = self.sites.expand(site)
        limit = limit_bytes(fleet.capacity[machine], self.problem.constraints.memory_headroom)
        over = needs.need[row] - limit
        missed = np.flatnonzero(over > 0)
        self.found.reject("memory", len(missed))
        if len(missed):
            big = self._untimed(layout, row[missed], machine[missed], needs, limit[missed])
            self._near(self.big, big, "over")
            self.found.missed(self.big[-1])
        fitting = np.flatnonzero(over <= 0)
        row, machine, limit = row[fitting], machine[fitting], limit[fitting]
        hosted = np.flatnonzero(~self._short_of_host_memory(needs.host[row], machine, layout.count[row, 0]))
        for start in range(0, len(hosted), CELLS):
            part = hosted[start : start + CELLS]
            self._timed(self._untimed(layout, row[part], machine[part], needs, limit[part]))

    def _needs(self, layout: Layout, site: Whole, standing: Standing) -> _Needs:
        needed = need_of(self._scenario(layout, site), standing)
        expected = needed.expected[:, 0]
        upper = self.problem.constraints.risk == "upper"
        return _Needs(needed.upper[:, 0] if upper else expected, expected, needed.host_per_rank[:, 0])

    def _scenario(self, layout: Layout, site: Whole) -> Scenario:
        """Layouts on the first machine of their site: memory is the same on all of them."""
        return self.found.fleet.scenario(self.recipe, layout, self.sites.first[site])

    def _short_of_host_memory(self, host: Whole, machine: Whole, count: Whole) -> NDArray[np.bool_]:
        """Rows whose node has not the host memory that offloading needs; an unknown one rules nothing out."""
        fleet = self.found.fleet
        ranks = np.minimum(np.maximum(fleet.node_devices[machine], 1), count)
        short = (fleet.host_memory[machine] >= 0) & (host * ranks > fleet.host_memory[machine])
        self.found.reject("host_memory", int(short.sum()))
        return short

    def _untimed(self, layout: Layout, row: Whole, machine: Whole, needs: _Needs, limit: Whole) -> Candidates:
        """Rows before anybody has timed them."""
        unknown = np.full(len(row), np.nan)
        both = needs.need[row], needs.expected[row]
        return Candidates(self.recipe, layout.take(row), machine, *both, limit, unknown, unknown, unknown, unknown)

    def _timed(self, here: Candidates) -> None:
        """Time what may still be the fastest layout of its machine and count, and pass it through the gates."""
        found, repeated = self.found, None
        if found.prune and self.recipe.model.architecture is not None:
            scenario = found.fleet.scenario(here.recipe, here.layout, here.machine)
            repeated = repeated_of(scenario)
            least = paces(self.problem, scenario, least_seconds(scenario, repeated))
            quick = ~(least > found.best_pace(here))
            found.spared += len(here) - int(quick.sum())
            here, repeated = self._pass(here, quick, "slower"), repeated.take(np.flatnonzero(quick))
        if len(here):
            self._gates(priced(self.problem, found.fleet, here, repeated))

    def _gates(self, here: Candidates) -> None:
        limits, found = self.problem.constraints, self.found
        here = self._pass(here, np.isfinite(here.step_seconds), "time_unknown")
        if limits.min_tokens_per_second is not None:
            weak = here.tokens_per_second < limits.min_tokens_per_second
            self._near(self.weak, here.take(np.flatnonzero(weak)), "lag")
            here = self._pass(here, ~weak, "throughput")
        if limits.deadline_hours is not None and self.problem.tokens is not None:
            late = here.hours > limits.deadline_hours
            self._near(self.late, here.take(np.flatnonzero(late)), "hours")
            here = self._pass(here, ~late, "deadline")
        if limits.budget_usd is not None and self.problem.tokens is not None:
            dear = here.usd > limits.budget_usd
            self._near(self.dear, here.take(np.flatnonzero(dear)), "usd")
            here = self._pass(here, ~dear, "budget")
        found.feasible_count += len(here)
        if len(here):
            found.fitted(here)
            self.good.append(here)
            self.held += len(here)

    def _near(self, held: list[Candidates], missed: Candidates, name: str) -> None:
        """Hold the closest of each place: which places have something better is known only at the end."""
        if not len(missed):
            return
        held.append(closest(missed, getattr(missed, name), MOST_NEAR))
        if len(held) > MOST_PARTS:
            every = joined(held)
            held[:] = [closest(every, getattr(every, name), MOST_NEAR)]

    def _pass(self, here: Candidates, good: NDArray[np.bool_], reason: str) -> Candidates:
        self.found.reject(reason, int((~good).sum()))
        return here if good.all() else here.take(np.flatnonzero(good))
