"""Sites: what a layout can tell of a machine. Many machines share one, so memory is worked out once for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.machine import Choice, Tables, engine_runs_on, machine_columns
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

    def scenario(self, recipe: Recipe, layout: Layout, machine: Whole) -> Scenario:
        """Candidates of one recipe: a layout and a machine each, (N,) machines."""
        return Scenario(
            recipe=recipe, layout=layout, machine=self.columns(machine, layout.count, recipe.precision.compute)
        )

    def columns(self, machine: Whole, count: Bytes, compute: str) -> Machine:
        """The machine columns of (N,) machines and (N, 1) device counts."""
        rows = column(machine)
        choice = Choice(accelerator=column(self.accelerator[machine]), node_type=rows, offer=rows, count=count)
        return machine_columns(self.tables, choice, compute)


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
    )


def _known(values: object) -> Whole:
    return np.array([-1 if value is None else value for value in values], dtype=np.int64)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Sites:
    """Distinct (count, devices of a node, scale-up domain, generation), K of them, and the machines behind each.

    Memory depends on a machine through its generation (the size of a library's workspace) and on nothing else; a layout
    through its count, its nodes and its domain.
    """

    count: Whole
    devices: Whole
    domain: Whole
    first: Whole
    """One machine of each site, (K,)."""
    weight: Whole
    """Machines of each site, (K,)."""
    start: Whole
    members: Whole
    """Machines by site: those of site k stand from start[k] on."""

    def largest(self, capacity: Bytes) -> tuple[Bytes, Whole]:
        """(the largest capacity, how many capacities are known) among each site's machines. [(K,) each]"""
        mine = capacity[self.members]
        known = np.add.reduceat((mine >= 0).astype(np.int64), self.start)
        return np.maximum.reduceat(mine, self.start), known

    def expand(self, site: Whole) -> tuple[Whole, Whole]:
        """(row, machine) of every candidate behind rows of layouts, whose sites are given, in row order."""
        weight = self.weight[site]
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
    keys = sorted(grouped)
    weight = np.array([len(grouped[key]) for key in keys], dtype=np.int64)
    members = [index for key in keys for index in grouped[key]]
    sites = Sites(
        count=np.array([key[0] for key in keys], dtype=np.int64),
        devices=np.array([key[1] for key in keys], dtype=np.int64),
        domain=np.array([key[2] for key in keys], dtype=np.int64),
        first=np.array([grouped[key][0] for key in keys], dtype=np.int64),
        weight=weight,
        start=np.cumsum(weight) - weight,
        members=np.array(members, dtype=np.int64),
    )
    return sites, unsupported
