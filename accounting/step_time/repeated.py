"""Blocks and ends of a model, timed once for all candidates of a search that differ in nothing these read.

Many candidates differ in their count, their data parallelism and their micro-batches alone. What a block reads is not
declared but enforced: any other column raises BatchRead.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from accounting.facts.calibration import CALIBRATION
from accounting.partition import partition_of
from accounting.scenario import Layout, Scenario
from accounting.step_time.blocks import Block, Ends, block_times, end_times
from accounting.step_time.clock import clock_of
from accounting.step_time.traffic import Traffic
from accounting.units import Floats
from accounting.unread import Unread

BLOCK_COLUMNS = ("tp", "cp", "pp", "ep", "etp", "sequence_parallel", "sequence_length", "micro_batch_size")
"""What a micro-batch through one block reads of a layout; whatever else it asked for would raise BatchRead."""
SHARED_GROUPS = ("shard_group", "replicate_group", "expert_shard_group", "live_chunks")
MOST_CODES = 1 << 62


@dataclass(frozen=True, slots=True)
class Repeated:
    """Blocks of each kind and ends, K rows of each, and which of the rows each of N candidates has."""

    blocks: tuple[Block, ...]
    ends: Ends
    index: NDArray[np.int64]
    """(N,)"""

    def take(self, rows: NDArray[np.int64]) -> Repeated:
        """The same for a choice of candidates."""
        return replace(self, index=self.index[rows])

    def spread(self) -> tuple[tuple[Block, ...], Ends]:
        """Seconds of every candidate, (N, 1); traffic cannot be read of them."""
        return tuple(_spread(block, self.index) for block in self.blocks), _spread(self.ends, self.index)

    def passes(self, counts: list[int]) -> Floats:
        """One micro-batch forward and backward through so many blocks of each kind and both ends. [second, (N, 1)]"""
        seconds = self.ends.first + self.ends.last
        for block, count in zip(self.blocks, counts, strict=True):
            seconds = seconds + count * (block.forward + block.backward)
        each: Floats = seconds.take(self.index, axis=0)
        return each


def repeated_of(scenario: Scenario) -> Repeated:
    """Time every kind of block and the ends once for each of their distinct inputs; the model has an architecture.

    A candidate's machine columns are those of its catalog rows: one device and node, one set of columns. NaN where a
    fact of the machine is unknown.
    """
    architecture = scenario.recipe.model.architecture
    assert architecture is not None
    first, index = distinct(scenario)
    once, unread = scenario.take(first), cast(Any, Unread())
    partition = replace(partition_of(once), **dict.fromkeys(SHARED_GROUPS, unread))
    others = dict.fromkeys((item.name for item in fields(Layout) if item.name not in BLOCK_COLUMNS), unread)
    micro_batches = once.layout.micro_batches
    once = replace(once, layout=replace(once.layout, **{**others, "micro_batches": micro_batches}))
    with np.errstate(invalid="ignore"):
        clock = replace(clock_of(once, partition, architecture, CALIBRATION), micro_batches=unread)
        clock = replace(clock, scenario=replace(once, layout=replace(once.layout, micro_batches=unread)))
        blocks = tuple(block_times(clock, unit, kind) for unit, kind in enumerate(scenario.recipe.inventory.kinds))
        return Repeated(blocks, end_times(clock), index)


def distinct(scenario: Scenario) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(one row of each distinct block on a device and node, (K,); which of them each candidate has, (N,))."""
    layout, machine = scenario.layout, scenario.machine
    columns = [getattr(layout, name) for name in BLOCK_COLUMNS] + [machine.accelerator_index, machine.node_index]
    code, size = np.zeros(len(scenario), dtype=np.int64), 1
    for values in columns:
        here = values[:, 0].astype(np.int64)
        width = int(here.max()) + 1
        if size * width > MOST_CODES:
            _, code = np.unique(code, return_inverse=True)
            _, here = np.unique(here, return_inverse=True)
            size, width = len(scenario), len(scenario)
        code, size = code * width + here, size * width
    _, first, index = np.unique(code, return_index=True, return_inverse=True)
    return first.astype(np.int64), index.astype(np.int64)


def _spread(value: Any, index: NDArray[np.int64]) -> Any:
    """Every column of a record for the candidates that have its rows."""
    if isinstance(value, np.ndarray):
        return value.take(index, axis=0) if len(value) > 1 else value
    if isinstance(value, Traffic):
        return Unread()
    if isinstance(value, tuple):
        return tuple(_spread(item, index) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{item.name: _spread(getattr(value, item.name), index) for item in fields(value)})
    return value
