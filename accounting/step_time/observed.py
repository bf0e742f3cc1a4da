"""Measured steps side by side: scenarios of one recipe become one, so that a refit costs a few array passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from accounting.partition import partition_of
from accounting.scenario import Columns, Scenario
from accounting.step_time.fit import Observation

_Group = TypeVar("_Group", bound=Columns)


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured step."""

    scenario: Scenario
    """Of one candidate."""
    seconds: float
    weight: float
    """Of its squared error."""


def stacked(scenarios: Sequence[Scenario]) -> Scenario:
    """Candidates of one recipe and one catalog choice as one scenario, in order; the recipe is the first one's.

    Raises ValueError where the machines' catalog rows differ: their indices would not mean the same.
    """
    first = scenarios[0]
    if any(item.machine.accelerators != first.machine.accelerators for item in scenarios):
        raise ValueError("scenarios of different accelerators cannot be stacked")
    return Scenario(
        recipe=first.recipe,
        layout=_joined([item.layout for item in scenarios]),
        machine=_joined([item.machine for item in scenarios]),
    )


def _joined(groups: list[_Group]) -> _Group:
    first = groups[0]
    columns: dict[str, Any] = {}
    for item in fields(first):  # type: ignore[arg-type]
        value = getattr(first, item.name)
        arrays = [getattr(group, item.name) for group in groups]
        columns[item.name] = np.concatenate(arrays) if isinstance(value, np.ndarray) else value
    return type(first)(**columns)


def observation_of(rows: Sequence[Measured]) -> Observation:
    """One observation of steps that share a recipe and an accelerator."""
    scenario = stacked([row.scenario for row in rows])
    return Observation(
        scenario=scenario,
        partition=partition_of(scenario),
        measured=np.asarray([[row.seconds] for row in rows]),
        weight=np.asarray([[row.weight] for row in rows]),
    )
