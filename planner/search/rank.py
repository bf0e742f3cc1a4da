"""Order, frontier and nearest misses of what a scan found; deterministic to the last tie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accounting.scenario import Scenario
from planner.search.candidates import (
    ORDERS,
    Candidates,
    Floats,
    first_of_each,
    order_of,
    undominated,
)
from planner.search.found import NEAREST, Found
from planner.search.machines import MachineChoice
from planner.search.pricing import priced
from planner.search.problem import PlanProblem
from planner.search.sites import Fleet, Whole

NUMBERS = ("total", "pace", "hours", "usd", "usd_per_hour", "step_seconds", "count", "degrees", "over", "place", "lag")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row, with the few numbers that order it."""

    source: Candidates
    index: int
    fleet: Fleet

    @property
    def scenario(self) -> Scenario:
        """The candidate alone, as a scenario of one row."""
        return self.source.scenario(self.fleet, self.index)

    @property
    def machine(self) -> MachineChoice:
        """The kind of node and price it runs on."""
        return self.fleet.machines[int(self.source.machine[self.index])]

    @property
    def count(self) -> int:
        """Devices."""
        return int(self.source.count[self.index])

    @property
    def hours(self) -> float:
        """Of the whole job; NaN where it has no length or no time."""
        return float(self.source.hours[self.index])

    @property
    def usd(self) -> float:
        """Of the whole job; NaN where it has no length, time or price."""
        return float(self.source.usd[self.index])

    @property
    def usd_per_hour(self) -> float:
        """Of all devices; NaN where there is no price."""
        return float(self.source.usd_per_hour[self.index])

    @property
    def step_seconds(self) -> float:
        """Of one optimizer step."""
        return float(self.source.step_seconds[self.index])

    @property
    def total(self) -> float:
        """Dollars of the whole job, or of an hour where the job has no length; NaN where time or price is unknown."""
        return float(self.source.total[self.index])

    @property
    def tokens_per_second(self) -> float:
        """Of all devices together; NaN where there is no time."""
        return float(self.source.tokens_per_second[self.index])

    @property
    def over_bytes(self) -> int:
        """Need above the limit; negative where it fits."""
        return int(self.source.over[self.index])


class Ranking:
    """Rows of several recipes as one table, best first."""

    def __init__(self, groups: list[Candidates], fleet: Fleet, objective: str) -> None:
        self.groups, self.fleet = groups, fleet
        sizes = [len(group) for group in groups]
        self.group: Whole = np.repeat(np.arange(len(groups), dtype=np.int64), sizes)
        self.index: Whole = np.concatenate([np.arange(size, dtype=np.int64) for size in sizes] or [self.group])
        self.columns: dict[str, Floats | Whole] = {
            name: np.concatenate([getattr(group, name) for group in groups]) if groups else np.zeros(0)
            for name in NUMBERS
        }
        self.order = order_of([self.columns[name] for name in ORDERS[objective]])

    def __len__(self) -> int:
        return len(self.order)

    def candidate(self, row: int) -> Candidate:
        """One row of the table."""
        return Candidate(self.groups[int(self.group[row])], int(self.index[row]), self.fleet)

    def places(self) -> Whole:
        """Rows that are the best layout of their place, a (device, node type, kind of price, count), best first.

        Options are one a place: what differs inside a place is only the layout, and the best layout is the answer.
        """
        return first_of_each(self.columns["place"].astype(np.int64), self.order)

    def frontier(self) -> Whole:
        """Rows that no other beats on both hours and dollars, fastest first; empty where either is unknown."""
        columns = self.columns
        return undominated(
            np.asarray(columns["hours"]),
            np.asarray(columns["usd"]),
            columns["count"].astype(np.int64),
            columns["degrees"].astype(np.int64),
        )

    def fastest(self) -> int | None:
        """The row with the least hours, cheapest first among equals; None where no time is known."""
        if not np.isfinite(self.columns["hours"]).any():
            return None
        return int(order_of([self.columns["hours"], self.columns["total"]])[0])


def winners(groups: list[Candidates], objective: str) -> Whole:
    """Rows of several recipes that an answer can show: best and fastest of each place, and the frontier."""
    columns = {name: np.concatenate([getattr(group, name) for group in groups]) for name in NUMBERS}
    place = columns["place"].astype(np.int64)
    rows = [first_of_each(place, order_of([columns[name] for name in ORDERS[kind]])) for kind in (objective, "time")]
    ties = (columns["count"].astype(np.int64), columns["degrees"].astype(np.int64))
    return np.unique(np.concatenate([*rows, undominated(columns["hours"], columns["usd"], *ties)]))


MISSES = {
    "budget": ("too_dear", "usd"),
    "deadline": ("too_slow", "hours"),
    "throughput": ("too_weak", "lag"),
    "memory": ("too_big", "over"),
}
"""Reason → (where a scan keeps them, how far they are from being feasible)."""


def closest_places(found: Found, reason: str) -> tuple[Ranking, Whole]:
    """Every miss of a kind, and the closest row of each place, nearest first."""
    kept, distance = MISSES[reason]
    ranking = Ranking(getattr(found, kept), found.fleet, "cost")
    place = ranking.columns["place"].astype(np.int64)
    nearest = first_of_each(place, order_of([ranking.columns[distance], found.fleet.price[place >> 32]]))
    if reason != "memory":
        nearest = nearest[~np.isin(place[nearest], found.feasible_places())]
    return ranking, nearest


def better_but_for(found: Found, reason: str, best: Candidate, objective: str) -> list[Candidate]:
    """What of other places would come before the best but for a limit on hours or dollars, nearest to it first."""
    ranking, nearest = closest_places(found, reason)
    name = {"cost": "total", "time": "hours", "devices": "count"}[objective]
    limit = {"cost": best.total, "time": best.hours, "devices": best.count}[objective]
    better = nearest[ranking.columns[name][nearest] < limit]
    return [ranking.candidate(int(row)) for row in better[:NEAREST]]


def nearest_misses(problem: PlanProblem, found: Found) -> list[tuple[str, Candidate]]:
    """(reason, candidate): those that came furthest first: over budget, too late, too weak, then too big.

    One a device and count.

    Nothing is late or dear of note at a place that has a feasible layout: that one is both faster and cheaper.
    """
    misses: list[tuple[str, Candidate]] = []
    for reason in MISSES:
        ranking, nearest = closest_places(found, reason)
        # Many prices of the same devices miss by the same: one stands for all of them, the cheapest.
        code = np.concatenate([found.devices(group) for group in ranking.groups]) if ranking.groups else nearest
        for row in first_of_each(code, nearest)[:NEAREST]:
            one = ranking.candidate(int(row))
            timed = priced(problem, found.fleet, one.source.take(np.array([one.index])))
            misses.append((reason, Candidate(timed, 0, found.fleet)))
    return misses
