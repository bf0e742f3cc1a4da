"""Several scenarios as one: those of one recipe are rows of one evaluation, whatever their layouts and machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from accounting.estimate import Explained, answers_of, explained
from accounting.scenario import Recipe, Scenario

MOST_ROWS = 32
"""Scenarios of one evaluation: more of them save nothing and keep whoever waits for the first one waiting."""


def answers(scenarios: Sequence[Scenario]) -> list[dict[str, Any]]:
    """The contract's answer of each scenario of one row, in their order, as each alone would get it to the bit."""
    found: list[dict[str, Any]] = [{} for _ in scenarios]
    for places, together in evaluated(scenarios):
        for place, answer in zip(places, answers_of(together), strict=True):
            found[place] = answer
    return found


def evaluated(scenarios: Sequence[Scenario]) -> Iterator[tuple[list[int], Explained]]:
    """(places of some of the scenarios, the evaluation that has them as rows), until every one has its place."""
    for group in _of_one_recipe(scenarios):
        for start in range(0, len(group), MOST_ROWS):
            places = group[start : start + MOST_ROWS]
            yield places, explained([scenarios[place] for place in places])


def _of_one_recipe(scenarios: Iterable[Scenario]) -> list[list[int]]:
    """Places of the scenarios that share a recipe, in the order of their first."""
    groups: dict[object, list[tuple[Recipe, list[int]]]] = {}
    for place, scenario in enumerate(scenarios):
        recipe = scenario.recipe
        alike = groups.setdefault((recipe.engine, recipe.zero_stage, recipe.optimizer.name, recipe.model.slug), [])
        known = next((places for other, places in alike if other == recipe), None)
        if known is None:
            alike.append((recipe, [place]))
        else:
            known.append(place)
    return sorted(places for alike in groups.values() for _, places in alike)
