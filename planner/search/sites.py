"""Sites: what a layout can tell of a machine. Many machines share one, so memory is worked out once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from accounting.catalog import Offer
from accounting.machine import Choice, Tables, engine_runs_on, machine_columns, price_per_device
from accounting.scenario import Layout, Machine, Recipe, Scenario, column
from accounting.units import Bytes
from accounting.vocabulary import Engine
from planner.search.machines import MachineChoice, counts
from planner.search.problem import PlanProblem

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The machines of a search as tables that columns point into."""

    machines: tuple[MachineChoice, ...]
    tables: Tables
    accelerator: Whole
    """Row in the accelerator table of each machine, (M,)."""
    capacity: Bytes
    """What the driver reports, (M,); -1 = unknown."""
    node_devices: Whole
    host_memory: Bytes
    """Of a node, (M,); -1 = unknown."""
    price: NDArray[np.float64]
    """Dollars of an hour of one device where whole instances are used, (M,); infinite without a price."""
    known: dict[str, Machine] = field(default_factory=dict, compare=False)
    """Compute dtype → the columns of every machine, once somebody has asked for them."""

    def scenario(self, recipe: Recipe, layout: Layout, machine: Whole) -> Scenario:
        """Candidates of one recipe: a layout and a machine each, (N,) machines."""
        return Scenario(
            recipe=recipe, layout=layout, machine=self.columns(machine, layout.count, recipe.precision.compute)
        )

    def columns(self, machine: Whole, count: Bytes, compute: str) -> Machine:
        """The machine columns of (N,) machines and (N, 1) device counts."""
        if compute not in self.known:
            every = column(np.arange(len(self.machines)))
            one = np.ones_like(every)
            choice = Choice(accelerator=column(self.accelerator), node_type=every, offer=every, count=one)
            self.known[compute] = machine_columns(self.tables, choice, compute)
        price = price_per_device(self.tables.offers, column(machine), count)
        return replace(self.known[compute].take(machine), usd_per_device_hour=price)


def fleet_of(machines: tuple[MachineChoice, ...]) -> Fleet:
    """Every device once, every node and price in machine order."""
    devices = {choice.accelerator.slug: choice.accelerator for choice in machines}
    places = {slug: index for index, slug in enumerate(devices)}
    hosts = [choice.node_type.host_memory_bytes if choice.node_type else None for choice in machines]
    return Fleet(
        machines=machines,
        tables=Tables(
            accelerators=tuple(devices.values()),
            node_types=tuple(choice.node_type for choice in machines),
            offers=tuple(choice.offer for choice in machines),
        ),
        accelerator=np.array([places[choice.accelerator.slug] for choice in machines], dtype=np.int64),
        capacity=_known(choice.accelerator.memory_bytes for choice in machines),
        node_devices=np.array([choice.node_devices for choice in machines], dtype=np.int64),
        host_memory=_known(iter(hosts)),
        price=np.array([_rate(choice.offer) for choice in machines], dtype=np.float64),
    )


def _rate(offer: Offer | None) -> float:
    return np.inf if offer is None else offer.usd_per_hour / offer.accelerator_count


def _known(values: object) -> Whole:
    return np.array([-1 if value is None else value for value in values], dtype=np.int64)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Sites:
    """Distinct (count, devices of a node, scale-up domain, generation), K of them, and the machines behind each.

    Memory depends on a machine through its generation (the size of a library's workspace) and on nothing else; a layout
    through its count, its nodes and its domain. A machine is open where its memory, and its price where one is needed,
    are known; the others are only counted.
    """

    count: Whole
    devices: Whole
    domain: Whole
    first: Whole
    """One machine of each site, (K,)."""
    weight: Whole
    """Machines of each site, (K,)."""
    open: Whole
    """Open ones of them, (K,)."""
    start: Whole
    members: Whole
    """Open machines by site: those of site k stand from start[k] on."""
    largest: Bytes
    """Largest capacity among a site's open machines, (K,); -1 where it has none."""
    barred: Mapping[str, Whole]
    """Reason → machines of each site that are not open for it, (K,)."""

    def expand(self, site: Whole) -> tuple[Whole, Whole]:
        """(row, open machine) of every candidate behind rows of layouts, whose sites are given, in row order."""
        weight = self.open[site]
        row = np.repeat(np.arange(len(site), dtype=np.int64), weight)
        ends = np.cumsum(weight)
        offset = np.arange(len(row), dtype=np.int64) - np.repeat(ends - weight, weight)
        return row, self.members[self.start[site][row] + offset]


def sites_of(problem: PlanProblem, machines: tuple[MachineChoice, ...], engine: Engine) -> tuple[Sites, int]:
    """(sites an engine runs on, candidates it does not run on: one for each machine and count)."""
    grouped: dict[tuple[int, int, int, str], list[int]] = {}
    unsupported = 0
    for index, choice in enumerate(machines):
        tried = counts(problem, choice)
        if not engine_runs_on(engine, choice.accelerator):
            unsupported += len(tried)
            continue
        for count in tried:
            key = (count, choice.node_devices, choice.domain, choice.accelerator.compute_capability or "")
            grouped.setdefault(key, []).append(index)
    return _sites(grouped, machines, [_bar(problem, choice) for choice in machines]), unsupported


def _bar(problem: PlanProblem, choice: MachineChoice) -> str | None:
    """Why nothing can be said of a machine; None where it is open."""
    if choice.accelerator.memory_bytes is None:
        return "memory_unknown"
    needed = problem.objective == "cost" or problem.constraints.budget_usd is not None
    return choice.no_price if needed and choice.offer is None else None


def _sites(
    grouped: Mapping[tuple[int, int, int, str], list[int]],
    machines: tuple[MachineChoice, ...],
    bars: list[str | None],
) -> Sites:
    keys = sorted(grouped)
    mine = [[index for index in grouped[key] if bars[index] is None] for key in keys]
    capacity = [[machines[index].accelerator.memory_bytes or 0 for index in row] for row in mine]
    reasons = sorted({bar for bar in bars if bar is not None})
    size = _whole(len(row) for row in mine)
    return Sites(
        count=_whole(key[0] for key in keys),
        devices=_whole(key[1] for key in keys),
        domain=_whole(key[2] for key in keys),
        first=_whole(grouped[key][0] for key in keys),
        weight=_whole(len(grouped[key]) for key in keys),
        open=size,
        start=np.cumsum(size) - size,
        members=_whole(index for row in mine for index in row),
        largest=_whole(max(row, default=-1) for row in capacity),
        barred={
            reason: _whole(sum(bars[index] == reason for index in grouped[key]) for key in keys) for reason in reasons
        },
    )


def _whole(values: Iterable[int]) -> Whole:
    return np.array(list(values), dtype=np.int64)
