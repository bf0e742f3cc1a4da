"""Pass one: every candidate judged in batches, few columns kept of each; what is dropped is counted by reason.

Recipes that try the same layouts are judged side by side, so that a layout is decoded once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accounting.scenario import Recipe, Recompute, replace_recipe
from accounting.standing import told_by_recomputation
from accounting.vocabulary import Engine, Schedule
from planner.search.candidates import joined
from planner.search.found import MOST_HELD, Found
from planner.search.grid import Axes, axes_of, combinations, layouts, unsharded
from planner.search.judge import Judge
from planner.search.machines import machine_choices
from planner.search.problem import PlanProblem
from planner.search.rank import winners
from planner.search.recipes import recipes, refusal
from planner.search.sites import fleet_of, sites_of

Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]


class SearchCancelled(Exception):
    """The caller no longer wants the answer."""


def scan(problem: PlanProblem, progress: Progress, cancelled: Cancelled, *, prune: bool = True) -> Found:
    """Every candidate of a problem, judged. Raises SearchCancelled between batches.

    `prune` spares candidates that a bound rules out the evaluation; what an answer shows is the same with and without.
    """
    machines = machine_choices(problem)
    sites = {engine: sites_of(problem, machines, engine) for engine in problem.engines}
    tried = np.unique(np.concatenate([here.count for here, _ in sites.values()]))
    found = Found(fleet_of(machines), tried, prune=prune)
    judges: list[Judge] = []
    kinds: list[Recipe] = []
    for recipe in recipes(problem):
        here, unsupported = sites[recipe.engine]
        refused = refusal(recipe)
        found.reject("engine_unsupported", unsupported)
        if refused is None:
            judges.append(Judge(problem, recipe, here, found, _kind(kinds, recipe)))
        else:
            found.reject(refused, int(here.weight.sum()))
    decided = sum(found.rejected.values())
    found.candidates, done = decided, decided
    total = decided + sum(combinations(problem, judge.recipe, judge.sites) for judge in judges)
    for family in _families(judges):
        for batch in layouts(problem, family[0].recipe, family[0].sites):
            for judge in family:
                if cancelled():
                    raise SearchCancelled
                judge.take(batch)
                done += batch.visited
                progress(done, total)
            if sum(judge.held for judge in judges) > MOST_HELD:
                _let_go(judges)
    for judge in judges:
        judge.finish()
    return found


def _kind(known: list[Recipe], recipe: Recipe) -> int:
    """Which of the known recipes differs from this one in recomputation alone; the recipe itself where none does."""
    plain = recipe if told_by_recomputation(recipe) else replace_recipe(recipe, recompute=Recompute())
    if plain not in known:
        known.append(plain)
    return known.index(plain)


def _families(judges: list[Judge]) -> list[list[Judge]]:
    """Judges by the layouts they try: engine, schedule, axes, and whether data-parallel ranks are copies or shards."""
    families: dict[tuple[Engine, Schedule, Axes, bool], list[Judge]] = {}
    for judge in judges:
        recipe = judge.recipe
        axes = axes_of(judge.problem, recipe, judge.sites)
        families.setdefault((recipe.engine, recipe.schedule, axes, unsharded(recipe)), []).append(judge)
    return list(families.values())


def _let_go(judges: list[Judge]) -> None:
    """Of all rows held keep those that an answer can show: the best and fastest of each place, and the frontier."""
    holding = [judge for judge in judges if judge.good]
    groups = [joined(judge.good) for judge in holding]
    sizes = np.cumsum([0, *(len(group) for group in groups)])
    kept = winners(groups, holding[0].problem.objective)
    for judge, group, start, end in zip(holding, groups, sizes[:-1], sizes[1:], strict=True):
        mine = kept[(kept >= start) & (kept < end)] - start
        judge.good = [group.take(mine)] if len(mine) else []
        judge.held = len(mine)
