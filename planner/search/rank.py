"""Order, frontier and nearest misses of what a scan found; deterministic to the last tie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accounting.scenario import Scenario
from planner.search.machines import MachineChoice
from planner.search.problem import PlanProblem
from planner.search.scan import Candidates, Found


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row, with the few numbers that order it."""

    source: Candidates
    index: int
    machine: MachineChoice
    count: int
    hours: float
    usd: float
    usd_per_hour: float
    step_seconds: float
    over_bytes: int
    """Need above the limit; negative where it fits."""
    parallelism: int
    """tp · pp · cp · ep: how far from plain data parallelism."""

    @property
    def scenario(self) -> Scenario:
        """The candidate alone, as a scenario of one row."""
        row = int(self.source.row[self.index])
        return self.source.block.scenario.take(slice(row, row + 1))

    @property
    def total(self) -> float:
        """Dollars of the whole job, or of an hour where the job has no length; NaN where time or price is unknown."""
        if np.isfinite(self.usd):
            return self.usd
        return self.usd_per_hour if np.isnan(self.hours) and np.isfinite(self.step_seconds) else np.nan

    @property
    def place(self) -> tuple[str, str, int]:
        """What people tell options apart by: device, node type, count."""
        node = self.machine.node_type.slug if self.machine.node_type else ""
        return (self.machine.accelerator.slug, node, self.count)


def candidates_of(groups: list[Candidates], machines: tuple[MachineChoice, ...]) -> list[Candidate]:
    """Rows of several recipes as one list, in scan order."""
    listed = []
    for group in groups:
        layout = group.block.scenario.layout
        for index, row in enumerate(group.row):
            degrees = layout.tp[row, 0] * layout.pp[row, 0] * layout.cp[row, 0] * layout.ep[row, 0]
            listed.append(
                Candidate(
                    source=group,
                    index=index,
                    machine=machines[int(group.block.machine[row])],
                    count=int(layout.count[row, 0]),
                    hours=float(group.hours[index]),
                    usd=float(group.usd[index]),
                    usd_per_hour=float(group.usd_per_hour[index]),
                    step_seconds=float(group.step_seconds[index]),
                    over_bytes=int(group.need[index] - group.limit[index]),
                    parallelism=int(degrees),
                )
            )
    return listed


def order_key(problem: PlanProblem) -> tuple[str, ...]:
    """Objective first; ties by cost, time, devices, simpler parallelism, more headroom."""
    return {
        "cost": ("total", "hours", "count", "parallelism", "over_bytes"),
        "time": ("pace", "total", "count", "parallelism", "over_bytes"),
        "devices": ("count", "total", "pace", "parallelism", "over_bytes"),
    }[problem.objective]


def ordered(problem: PlanProblem, listed: list[Candidate]) -> list[Candidate]:
    """All candidates, best first. NaN sorts last; equal rows keep scan order."""

    def value(candidate: Candidate, name: str) -> float:
        if name == "pace":
            number = candidate.hours if np.isfinite(candidate.hours) else candidate.step_seconds
        else:
            number = getattr(candidate, name)
        return float(number) if np.isfinite(number) else float("inf")

    keys = order_key(problem)
    return sorted(listed, key=lambda candidate: tuple(value(candidate, name) for name in keys))


def one_per_place(ranked: list[Candidate]) -> list[Candidate]:
    """The best layout of each (device, node type, count)."""
    best: dict[tuple[str, str, int], Candidate] = {}
    for candidate in ranked:
        best.setdefault(candidate.place, candidate)
    return list(best.values())


def frontier(listed: list[Candidate]) -> list[Candidate]:
    """Those no other beats on both hours and dollars, fastest first; empty where either is unknown."""
    known = [one for one in listed if np.isfinite(one.hours) and np.isfinite(one.usd)]
    front: list[Candidate] = []
    for candidate in sorted(known, key=lambda one: (one.hours, one.usd, one.count, one.parallelism)):
        if not front or candidate.usd < front[-1].usd:
            front.append(candidate)
    return front


def nearest_misses(found: Found, limit: int = 3) -> list[tuple[str, Candidate]]:
    """(reason, candidate): memory misses first by bytes, then by hours, then by dollars; one per place."""
    misses: list[tuple[str, Candidate]] = []
    for reason, groups, key in (
        ("memory", found.too_big, lambda one: one.over_bytes),
        ("deadline", found.too_slow, lambda one: one.hours),
        ("budget", found.too_dear, lambda one: one.usd),
    ):
        listed = sorted(candidates_of(groups, found.machines), key=key)
        misses += [(reason, one) for one in one_per_place(listed)[:limit]]
    return misses
