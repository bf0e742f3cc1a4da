"""Scenarios of one recipe put one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import accumulate
from typing import Any

import numpy as np

from accounting.scenario import Layout, Machine, Scenario

_TABLES = {"accelerator_index": "accelerators", "node_index": "node_types", "offer_index": "offers"}
"""Column of the machine -> the table that it points into."""


def joined(scenarios: Sequence[Scenario]) -> Scenario:
    """The rows of scenarios of one recipe, one after the other, without what was said of each."""
    if len(scenarios) == 1:
        return scenarios[0]
    first = scenarios[0]
    return Scenario(
        recipe=first.recipe,
        layout=Layout(**_columns([scenario.layout for scenario in scenarios])),
        machine=_machines([scenario.machine for scenario in scenarios]),
    )


def _columns(groups: Sequence[Layout] | Sequence[Machine]) -> dict[str, Any]:
    names = [item.name for item in fields(groups[0]) if item.name not in _TABLES.values()]
    return {name: np.concatenate([getattr(group, name) for group in groups]) for name in names}


def _machines(machines: Sequence[Machine]) -> Machine:
    """Machines with their tables one after the other; rows of one table keep it."""
    columns = _columns(machines)
    for index, name in _TABLES.items():
        tables = [getattr(machine, name) for machine in machines]
        if all(table == tables[0] for table in tables):
            columns[name] = tables[0]
            continue
        starts = [0, *accumulate(len(table) for table in tables)]
        moved = [getattr(machine, index) + start for machine, start in zip(machines, starts[:-1], strict=True)]
        columns[index] = np.concatenate(moved)
        columns[name] = tuple(row for table in tables for row in table)
    return Machine(**columns)
