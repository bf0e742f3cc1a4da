"""Pass one: every candidate in chunks, four columns kept of each; what is dropped is counted by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accounting.constraints import RULES, reasons
from accounting.cost import Interruptions, RunCost, run_cost
from accounting.estimate import limit_bytes, need_of
from accounting.partition import partition_of
from accounting.scenario import Scenario
from accounting.step_time import Timing, step_time
from planner.search.grid import Block, block_of, recipes
from planner.search.machines import MachineChoice, machine_choices
from planner.search.problem import PlanProblem

CHUNK = 8_192
KEPT_PER_RECIPE = 256
"""Feasible rows kept of a recipe for each ordering: enough for options, frontier and plot, flat in memory."""

NEAREST = 3
"""Near misses kept of a chunk."""

Progress = Callable[[int, int], None]


class SearchCancelled(Exception):
    """The caller no longer wants the answer."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Feasible or nearly feasible rows of one recipe, as flat columns."""

    block: Block
    row: NDArray[np.int64]
    """Row in the block's scenario."""
    need: NDArray[np.int64]
    """Bytes that had to fit: the upper end of the range, or the expected value."""
    limit: NDArray[np.int64]
    hours: NDArray[np.float64]
    usd: NDArray[np.float64]
    usd_per_hour: NDArray[np.float64]
    step_seconds: NDArray[np.float64]

    def take(self, index: NDArray[np.int64]) -> Candidates:
        return Candidates(
            self.block,
            *(column[index] for column in (self.row, self.need, self.limit)),
            *(column[index] for column in (self.hours, self.usd, self.usd_per_hour, self.step_seconds)),
        )

    @property
    def count(self) -> NDArray[np.int64]:
        """Devices of each row."""
        return self.block.scenario.layout.count[self.row, 0]


@dataclass(slots=True)
class Found:
    """What a scan found."""

    machines: tuple[MachineChoice, ...]
    candidates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    feasible: list[Candidates] = field(default_factory=list)
    feasible_count: int = 0
    too_big: list[Candidates] = field(default_factory=list)
    """Closest candidates that do not fit in memory."""
    too_slow: list[Candidates] = field(default_factory=list)
    too_dear: list[Candidates] = field(default_factory=list)


def cost_of(problem: PlanProblem, scenario: Scenario, timing: Timing) -> RunCost:
    goodput = problem.goodput
    return run_cost(
        step_seconds=timing.step_seconds,
        tokens_per_step=scenario.layout.tokens_per_step,
        count=scenario.layout.count,
        usd_per_device_hour=scenario.machine.usd_per_device_hour,
        power_watts=scenario.machine.power_watts,
        tokens=problem.tokens,
        interruptions=Interruptions(
            checkpoint_seconds=goodput.checkpoint_seconds,
            restart_seconds=goodput.restart_seconds,
            failures_per_device_hour=goodput.failures_per_device_hour,
        ),
    )


def scan(problem: PlanProblem, progress: Progress, cancelled: Callable[[], bool]) -> Found:
    """Every candidate of a problem, judged. Raises SearchCancelled between chunks."""
    machines = machine_choices(problem)
    found = Found(machines)
    blocks = []
    for recipe in recipes(problem):
        block = block_of(problem, recipe, machines)
        if block is None:
            found.rejected["engine_unsupported"] += 1
            found.candidates += 1
            continue
        blocks.append(block)
    total = sum(len(block.scenario) for block in blocks) + found.candidates
    for block in blocks:
        layouts = judge_layouts(problem, block, cancelled)
        for start in range(0, len(block.scenario), CHUNK):
            if cancelled():
                raise SearchCancelled
            rows = np.arange(start, min(start + CHUNK, len(block.scenario)))
            _judge(problem, block, layouts, rows, found)
            found.candidates += len(rows)
            progress(found.candidates, total)
    return found


@dataclass(frozen=True, slots=True)
class Layouts:
    """What depends on the layout alone, (M,) each."""

    broken: NDArray[np.int64]
    """Index of the first rule broken; -1 = none."""
    need: NDArray[np.int64]
    """Bytes that must fit; 0 where a rule is broken."""
    host: NDArray[np.int64]
    """Host bytes of one rank."""


def judge_layouts(problem: PlanProblem, block: Block, cancelled: Callable[[], bool]) -> Layouts:
    """Rules and memory of each different layout of a recipe, once for all machines."""
    size = len(block.layouts)
    broken = np.full(size, -1, dtype=np.int64)
    need, host = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for start in range(0, size, CHUNK):
        if cancelled():
            raise SearchCancelled
        rows = np.arange(start, min(start + CHUNK, size))
        bits = reasons(block.recipe, block.layouts.layout.take(rows))[:, 0]
        for index in reversed(range(len(RULES))):
            broken[rows[bits >> index & 1 == 1]] = index
        good = rows[bits == 0]
        if len(good):
            bytes_needed = need_of(block.layouts.take(good))
            need[good] = (bytes_needed.upper if problem.constraints.risk == "upper" else bytes_needed.expected)[:, 0]
            host[good] = bytes_needed.host_per_rank[:, 0]
    return Layouts(broken, need, host)


def _judge(problem: PlanProblem, block: Block, layouts: Layouts, rows: NDArray[np.int64], found: Found) -> None:
    """Count what a chunk loses at each gate, in order: rules, batch, capacity, memory, time, price, deadline, budget."""
    broken = layouts.broken[block.layout_row[rows]]
    for index in np.unique(broken[broken >= 0]):
        _reject(found, RULES[index].reason, int((broken == index).sum()))
    rows = rows[broken < 0]
    unbalanced = block.unbalanced[rows]
    _reject(found, "batch", int(unbalanced.sum()))
    rows = _fitting(problem, block, layouts, rows[~unbalanced], found)
    if len(rows):
        _gates(problem, _priced(problem, block, layouts, rows), found)


def _fitting(
    problem: PlanProblem, block: Block, layouts: Layouts, rows: NDArray[np.int64], found: Found
) -> NDArray[np.int64]:
    """Rows that fit their machine; only these are worth timing. The closest of the others are kept as near misses."""
    capacity = block.scenario.machine.capacity_bytes[rows, 0]
    unknown = capacity < 0
    _reject(found, "capacity_unknown", int(unknown.sum()))
    rows, limit = rows[~unknown], limit_bytes(capacity[~unknown], problem.constraints.memory_headroom)
    over = layouts.need[block.layout_row[rows]] - limit
    missed = np.flatnonzero(over > 0)
    _reject(found, "memory", len(missed))
    if len(missed):
        nearest = np.sort(missed[np.argsort(over[missed], kind="stable")[:NEAREST]])
        found.too_big.append(_priced(problem, block, layouts, rows[nearest]))
    return _hosted(block, layouts, rows[over <= 0], found)


def _hosted(block: Block, layouts: Layouts, rows: NDArray[np.int64], found: Found) -> NDArray[np.int64]:
    """Rows whose node has the host memory that offloading needs; an unknown node memory rules nothing out."""
    scenario = block.scenario
    ranks = np.minimum(np.maximum(scenario.machine.devices_per_node[rows, 0], 1), scenario.layout.count[rows, 0])
    host = scenario.machine.host_memory_bytes[rows, 0]
    short = (host >= 0) & (layouts.host[block.layout_row[rows]] * ranks > host)
    _reject(found, "host_memory", int(short.sum()))
    return rows[~short]


def _priced(problem: PlanProblem, block: Block, layouts: Layouts, rows: NDArray[np.int64]) -> Candidates:
    scenario = block.scenario.take(rows)
    timing = step_time(scenario, partition_of(scenario))
    cost = cost_of(problem, scenario, timing)
    capacity = scenario.machine.capacity_bytes[:, 0]
    return Candidates(
        block,
        rows,
        layouts.need[block.layout_row[rows]],
        limit_bytes(capacity, problem.constraints.memory_headroom),
        cost.hours[:, 0],
        cost.usd[:, 0],
        cost.usd_per_hour[:, 0],
        timing.step_seconds[:, 0],
    )


def _gates(problem: PlanProblem, here: Candidates, found: Found) -> None:
    limits = problem.constraints
    here = _pass(here, np.isfinite(here.step_seconds), "time_unknown", found)
    if problem.objective == "cost" or limits.budget_usd is not None:
        here = _pass(here, np.isfinite(here.usd_per_hour), "price_unknown", found)
    if limits.deadline_hours is not None and problem.tokens is not None:
        late = here.hours > limits.deadline_hours
        found.too_slow += _closest(here.take(np.flatnonzero(late)), lambda c: c.hours)
        here = _pass(here, ~late, "deadline", found)
    if limits.budget_usd is not None and problem.tokens is not None:
        dear = here.usd > limits.budget_usd
        found.too_dear += _closest(here.take(np.flatnonzero(dear)), lambda c: c.usd)
        here = _pass(here, ~dear, "budget", found)
    found.feasible_count += len(here.row)
    if len(here.row):
        found.feasible.append(_best(here))


def _pass(here: Candidates, good: NDArray[np.bool_], reason: str, found: Found) -> Candidates:
    _reject(found, reason, int((~good).sum()))
    return here if good.all() else here.take(np.flatnonzero(good))


def _reject(found: Found, reason: str, count: int) -> None:
    if count:
        found.rejected[reason] += count


def _closest(missed: Candidates, distance: Callable[[Candidates], NDArray[np.float64]]) -> list[Candidates]:
    """The nearest misses of a chunk."""
    if not len(missed.row):
        return []
    return [missed.take(np.argsort(distance(missed), kind="stable")[:NEAREST])]


def _best(here: Candidates) -> Candidates:
    """Rows that any ordering could still want: cheapest, fastest, fewest devices, and those no other row beats on both."""
    if len(here.row) <= KEPT_PER_RECIPE:
        return here
    usd = np.where(np.isfinite(here.usd), here.usd, here.usd_per_hour)
    hours = np.where(np.isfinite(here.hours), here.hours, here.step_seconds)
    orders = (usd, hours, here.count.astype(np.float64))
    chosen = [np.lexsort((here.row, usd, order))[:KEPT_PER_RECIPE] for order in orders]
    by_hours = np.lexsort((usd, hours))
    falling = np.minimum.accumulate(usd[by_hours])
    chosen.append(by_hours[usd[by_hours] <= falling])
    return here.take(np.unique(np.concatenate(chosen)))
