"""Judged rows of one recipe as flat columns, and which of them any ordering could still want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from accounting.scenario import Layout, Recipe, Scenario
from planner.search.sites import Fleet, Whole

Floats = NDArray[np.float64]
NUMBERS = ("machine", "need", "expected", "limit", "hours", "usd", "usd_per_hour", "step_seconds")


@dataclass(frozen=True, slots=True)
class Candidates:
    """Feasible or nearly feasible rows of one recipe. Columns are (N,), the layout's (N, 1)."""

    recipe: Recipe
    layout: Layout
    machine: Whole
    """Index into the machine choices."""
    need: Whole
    """Bytes that had to fit: the upper end of the range, or the expected value."""
    expected: Whole
    """Bytes the driver is expected to show: what the pace of a nearly full card depends on."""
    limit: Whole
    hours: Floats
    usd: Floats
    usd_per_hour: Floats
    step_seconds: Floats

    def __len__(self) -> int:
        return len(self.machine)

    def take(self, index: NDArray[np.int64]) -> Candidates:
        """The same columns for a choice of rows."""
        return Candidates(self.recipe, self.layout.take(index), *(getattr(self, name)[index] for name in NUMBERS))

    def scenario(self, fleet: Fleet, index: int) -> Scenario:
        """One row alone, as a scenario of N = 1."""
        row = np.array([index])
        return fleet.scenario(self.recipe, self.layout.take(row), self.machine[row])

    @property
    def count(self) -> Whole:
        """Devices of each row."""
        return self.layout.count[:, 0]

    @property
    def over(self) -> Whole:
        """Bytes above the limit; negative where it fits."""
        return self.need - self.limit

    @property
    def degrees(self) -> Whole:
        """tp · pp · vpp · cp · ep: how far from plain data parallelism."""
        layout = self.layout
        return (layout.tp * layout.pp * layout.vpp * layout.cp * layout.ep)[:, 0]

    @property
    def tokens_per_second(self) -> Floats:
        """Of all devices together; NaN where the time is unknown."""
        return self.layout.tokens_per_step[:, 0] / self.step_seconds

    @property
    def lag(self) -> Floats:
        """Throughput as a distance: tokens a second, negated."""
        return -self.tokens_per_second

    @property
    def total(self) -> Floats:
        """Dollars of the whole job, of an hour where it has no length; NaN where time or price is unknown."""
        rate = np.where(np.isnan(self.hours) & np.isfinite(self.step_seconds), self.usd_per_hour, np.nan)
        return np.where(np.isfinite(self.usd), self.usd, rate)

    @property
    def pace(self) -> Floats:
        """Hours of the job, seconds of a step where it has no length."""
        return np.where(np.isfinite(self.hours), self.hours, self.step_seconds)

    @property
    def place(self) -> Whole:
        """A code of (machine, count): what people tell options apart by."""
        return place_of(self.machine, self.count)


def place_of(machine: Whole, count: Whole) -> Whole:
    """One code for a machine and a number of devices."""
    return machine * np.int64(1 << 32) + count


def joined(parts: Sequence[Candidates]) -> Candidates:
    """Rows of the same recipe one after another. `parts` is not empty."""
    if len(parts) == 1:
        return parts[0]
    layout = Layout(
        **{item.name: np.concatenate([getattr(part.layout, item.name) for part in parts]) for item in fields(Layout)}
    )
    return Candidates(
        parts[0].recipe, layout, *(np.concatenate([getattr(part, name) for part in parts]) for name in NUMBERS)
    )


ORDERS = {
    "cost": ("total", "pace", "count", "degrees", "over"),
    "time": ("pace", "total", "count", "degrees", "over"),
    "devices": ("count", "total", "pace", "degrees", "over"),
}
"""Objective first; ties by cost, time, devices, simpler parallelism, more headroom; then the order of the search."""


def order_of(columns: Sequence[NDArray[np.generic]]) -> Whole:
    """Rows by the first column, ties by the next; NaN last, equal rows as they stand."""
    sortable = [np.where(np.isnan(values), np.inf, values) for values in (np.asarray(c, np.float64) for c in columns)]
    return np.lexsort(sortable[::-1])


def objective_order(here: Candidates, objective: str) -> Whole:
    """Rows of one recipe, best first."""
    return order_of([getattr(here, name) for name in ORDERS[objective]])


def first_of_each(codes: Whole, order: Whole) -> Whole:
    """The rows that lead their code in an order, in that order."""
    _, first = np.unique(codes[order], return_index=True)
    return order[np.sort(first)]


def undominated(hours: Floats, usd: Floats, *ties: Whole) -> Whole:
    """Rows that no other beats on both hours and dollars, fastest first; rows where either is unknown never are."""
    known = np.flatnonzero(np.isfinite(hours) & np.isfinite(usd))
    order = known[order_of([hours[known], usd[known], *(tie[known] for tie in ties)])]
    if not len(order):
        return order
    cheapest = np.minimum.accumulate(usd[order])
    leads = np.concatenate([[True], usd[order][1:] < cheapest[:-1]])
    return np.asarray(order[leads], dtype=np.int64)


def wanted(here: Candidates, objective: str) -> Candidates:
    """What an answer can show of a recipe: best and fastest of each place, and the frontier: no winner is lost."""
    rows = [
        first_of_each(here.place, objective_order(here, objective)),
        first_of_each(here.place, objective_order(here, "time")),
        undominated(here.hours, here.usd, here.count, here.degrees),
    ]
    kept = np.unique(np.concatenate(rows))
    return here if len(kept) == len(here) else here.take(kept)


def closest(here: Candidates, distance: NDArray[np.generic], most: int) -> Candidates:
    """The rows that miss by least, one per place."""
    return here.take(first_of_each(here.place, order_of([distance]))[:most])
