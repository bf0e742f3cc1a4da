"""What a scan has found so far, shared by the judges of all recipes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from planner.search.candidates import Candidates, Floats, place_of
from planner.search.machines import MachineChoice
from planner.search.sites import Fleet, Whole

NEAREST = 3
"""Near misses shown of each kind."""
AFTER_MEMORY = ("slower", "time_unknown", "throughput", "deadline", "budget")
"""Gates behind memory."""
MOST_HELD = 65_536
"""Feasible rows held before those that nothing can want are let go."""


@dataclass(slots=True)
class Found:
    """What a scan found."""

    fleet: Fleet
    counts: Whole
    """Every number of devices that is tried, ascending, (C,)."""
    prune: bool = True
    candidates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    feasible: list[Candidates] = field(default_factory=list)
    feasible_count: int = 0
    too_big: list[Candidates] = field(default_factory=list)
    """Closest candidates that do not fit in memory; nobody has timed them."""
    too_weak: list[Candidates] = field(default_factory=list)
    """Candidates of less than the least throughput."""
    too_slow: list[Candidates] = field(default_factory=list)
    too_dear: list[Candidates] = field(default_factory=list)
    spared: int = 0
    """Candidates that a bound ruled out before they were evaluated."""
    _over: dict[int, int] = field(default_factory=dict)
    """Device and count → least bytes over the limit, of the closest ones."""
    _pace: Floats = field(init=False)
    """Pace of the fastest feasible candidate of each machine and count, infinite where there is none, (M · C,)."""

    def __post_init__(self) -> None:
        self._pace = np.full(len(self.machines) * len(self.counts), np.inf)

    @property
    def machines(self) -> tuple[MachineChoice, ...]:
        """What `Candidates.machine` points into."""
        return self.fleet.machines

    def reject(self, reason: str, count: int) -> None:
        """Count candidates lost at one gate."""
        if count:
            self.rejected[reason] += count

    @property
    def near(self) -> float:
        """Bytes over the limit beyond which a candidate is no near miss any more; infinite where any may be one."""
        return max(self._over.values()) if self.prune and len(self._over) == NEAREST else np.inf

    def devices(self, here: Candidates) -> Whole:
        """A code of (device, count), whatever the node and the price. [(N,)]"""
        return self.fleet.accelerator[here.machine] * np.int64(1 << 32) + here.count

    def missed(self, here: Candidates) -> None:
        """Take note of candidates that do not fit."""
        for place, over in zip(self.devices(here).tolist(), here.over.tolist(), strict=True):
            self._over[place] = min(over, self._over.get(place, over))
        closest = sorted(self._over.items(), key=lambda item: item[1])[:NEAREST]
        self._over = dict(closest)

    def fitted(self, here: Candidates) -> None:
        """Take note of feasible candidates."""
        np.fmin.at(self._pace, self._places(here), here.pace)

    def best_pace(self, here: Candidates) -> Floats:
        """Pace of the fastest feasible candidate at each one's place so far; infinite where there is none. [(N,)]"""
        best: Floats = self._pace[self._places(here)]
        return best

    def _places(self, here: Candidates) -> Whole:
        return here.machine * len(self.counts) + np.searchsorted(self.counts, here.count)

    @property
    def fitting(self) -> int:
        """Candidates that fit in memory, feasible or not: the same number with and without pruning."""
        return self.feasible_count + sum(self.rejected[reason] for reason in AFTER_MEMORY)

    def feasible_places(self) -> Whole:
        """Codes of the places that have a feasible candidate."""
        machine, count = np.divmod(np.flatnonzero(np.isfinite(self._pace)), len(self.counts))
        return place_of(machine, self.counts[count])
