"""A stream of candidates as a search makes them: every layout on every machine that it may stand on, none twice."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from accounting.constraints import reasons
from accounting.estimate import need_of
from accounting.scenario import Layout, Recipe
from planner.search.candidates import Candidates
from planner.search.grid import CELLS, layouts, stretches
from planner.search.machines import machine_choices
from planner.search.pricing import priced
from planner.search.problem import PlanProblem
from planner.search.recipes import recipes
from planner.search.sites import Fleet, Sites, Whole, fleet_of, sites_of

LEAST_ROWS = 1024
"""Layouts of a recipe below which the calls outweigh the rows."""


@dataclass(frozen=True)
class Stream:
    """Layouts of one recipe, (R, 1) columns, on their sites."""

    problem: PlanProblem
    recipe: Recipe
    fleet: Fleet
    sites: Sites
    layout: Layout
    site: Whole

    def take(self, rows: Whole) -> Stream:
        """The same for some of the layouts."""
        return Stream(self.problem, self.recipe, self.fleet, self.sites, self.layout.take(rows), self.site[rows])

    @property
    def candidates(self) -> int:
        """Layouts times their machines."""
        return int(self.sites.open[self.site].sum())

    def distinct(self) -> int:
        """Candidates that differ from all others."""
        row, machine = self.sites.expand(self.site)
        columns = [getattr(self.layout, item.name)[row, 0].astype(np.int64) for item in fields(Layout)]
        return len(np.unique(np.stack([*columns, machine], axis=1), axis=0))

    def evaluate(self) -> float:
        """Memory of every layout, time and dollars of every candidate, fitting or not, in the search's own batches."""
        found = 0.0
        for start, end in stretches(self.layout.pp[:, 0], CELLS):
            found += self.take(np.arange(start, end, dtype=np.int64))._batch()
        return found

    def _batch(self) -> float:
        needed = need_of(self.fleet.scenario(self.recipe, self.layout, self.sites.first[self.site]))
        row, machine = self.sites.expand(self.site)
        found = 0.0
        for start in range(0, len(row), CELLS):
            at, on = row[start : start + CELLS], machine[start : start + CELLS]
            unknown = np.full(len(at), np.nan)
            need, expected = needed.upper[at, 0], needed.expected[at, 0]
            columns = (need, expected, self.fleet.capacity[on], unknown, unknown, unknown, unknown)
            timed = priced(self.problem, self.fleet, Candidates(self.recipe, self.layout.take(at), on, *columns))
            found += float(np.nansum(timed.usd) + timed.need.sum() + (timed.over <= 0).sum())
        return found


def stream_of(problem: PlanProblem, engine: str, stage: int) -> Stream:
    """All layouts of the first recipe of an engine and stage that break no rule."""
    machines = machine_choices(problem)
    recipe = next(one for one in recipes(problem) if one.engine.value == engine and one.zero_stage == stage)
    sites, _ = sites_of(problem, machines, recipe.engine)
    batch = next(layouts(problem, recipe, sites))
    good = np.flatnonzero((reasons(recipe, batch.layout)[:, 0] == 0) & ~batch.unbalanced)
    good = good[sites.open[batch.site[good]] > 0]
    assert len(good) >= LEAST_ROWS
    return Stream(problem, recipe, fleet_of(machines), sites, batch.layout.take(good), batch.site[good])
