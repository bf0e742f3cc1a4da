"""What stands in memory whatever the batch: evaluated once for all the batches of a layout.

A search asks for the same layout at many micro-batches and with every kind of recomputation. The lines of the ledger
that read neither (weights, states, gathers) are the same for all of them. Which lines these are is not declared but
tried: they are evaluated on a scenario whose batch and recomputation cannot be read, and a line that reads them all the
same is one of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from accounting.ledger import ByMoment, Ledger, Line, Row, fill
from accounting.memory import MEMORY_LINES
from accounting.memory.context import Context
from accounting.memory.device import likely_range
from accounting.memory.numerics import numerics_of
from accounting.partition import partition_of
from accounting.scenario import BATCH_COLUMNS, Recipe, Scenario, replace_recipe
from accounting.units import Bytes
from accounting.unread import BatchRead, Unread
from accounting.vocabulary import Bucket


@dataclass(frozen=True, slots=True)
class Standing:
    """The part of a ledger that knows no batch, R rows, and which of them each of N candidates has.

    It holds for every recipe that differs from its own in the recomputation alone, unless that tells whose code it is.
    """

    ledger: Ledger
    """Of the lines that read no batch, (R, S)."""
    moving: tuple[Line, ...]
    """The other lines, in display order."""
    index: NDArray[np.int64]
    """(N,)."""
    expected: NDArray[np.float64]
    """A calibration set's factor on the formulas' bytes, (R, 1)."""
    highest: NDArray[np.float64]
    """Upper end of the likely range over the formulas' bytes, (R, 1)."""

    def take(self, rows: NDArray[np.int64]) -> Standing:
        """The same for a choice of candidates."""
        return replace(self, index=self.index[rows])

    def floor_bytes(self, *, upper: bool) -> Bytes:
        """What the driver shows at least, whatever the batch; with `upper` at the upper end of the range. [byte, (N,)]

        The largest moment of the standing lines alone: the other lines, the allocator's slack, context and
        communicators only ever add to it.
        """
        least: Bytes = self.ledger.peak().max(axis=1, keepdims=True)
        least = np.floor(least * (self.highest if upper else self.expected)).astype(np.int64)
        each: Bytes = least[self.index, 0]
        return each

    def fill(self, context: Context) -> Ledger:
        """The whole ledger's totals for the candidates; of the rows those that are read one by one.

        Equal to the ledger of all lines to the bit: whole numbers add up to the same in any order.
        """
        stages = context.partition.shape[1]
        totals = {moment: self._spread(total, stages) for moment, total in self.ledger.totals.items()}
        ledger = fill(self.moving, context, totals)
        read = [row for row in self.ledger.rows if not row.line.device or row.line.bucket is Bucket.LOGITS_AND_LOSS]
        return replace(ledger, rows=(*(self._row(row, stages) for row in read), *ledger.rows))

    def _row(self, row: Row, stages: int) -> Row:
        once = {id(amount): self._spread(amount, stages) for amount in row.by_moment.values()}
        return Row(row.line, {moment: once[id(amount)] for moment, amount in row.by_moment.items()})

    def _spread(self, amount: Bytes, stages: int) -> Bytes:
        """A row for each candidate, of as many stages as they have. [(N, S)]"""
        return np.broadcast_to(amount, self.ledger.shape)[:, :stages].take(self.index, axis=0)


def told_by_recomputation(recipe: Recipe) -> bool:
    """Whether it hangs on the recomputation whose code a recipe is priced as: no other one shares what stands then."""
    try:
        numerics_of(replace_recipe(recipe, recompute=cast(Any, Unread())))
    except BatchRead:
        return True
    return False


def standing_of(scenario: Scenario) -> Standing:
    """Evaluate every line that reads neither batch nor recomputation, once for each run of candidates that differ in
    their batch alone."""
    first = _first_of_runs(scenario)
    starts = np.flatnonzero(first)
    once = scenario.take(starts)
    unread = cast(Any, Unread())
    partition = replace(partition_of(once), tokens=unread, live_chunks=unread)
    layout = replace(once.layout, **dict.fromkeys(BATCH_COLUMNS, unread))
    recipe = once.recipe if told_by_recomputation(once.recipe) else replace_recipe(once.recipe, recompute=unread)
    once = replace(once, layout=layout, recipe=recipe)
    context = Context(once, partition)
    known, moving = [], []
    for line in MEMORY_LINES:
        try:
            amounts = line.amount(context)
        except BatchRead:
            moving.append(line)
        else:
            known.append(replace(line, amount=partial(_known, amounts)))
    index = np.cumsum(first) - 1
    _, expected, highest = likely_range(context)
    return Standing(fill(tuple(known), context), tuple(moving), index, expected, highest)


def _known(amounts: ByMoment, _: Context) -> ByMoment:
    return amounts


def _first_of_runs(scenario: Scenario) -> NDArray[np.bool_]:
    """Candidates that differ from the one before in more than their batch. [(N,)]"""
    layout, machine = scenario.layout, scenario.machine
    columns = [getattr(layout, item.name) for item in fields(layout) if item.name not in BATCH_COLUMNS]
    columns += [machine.accelerator_index, machine.node_index, machine.offer_index]
    first = np.ones(len(scenario), dtype=np.bool_)
    first[1:] = False
    for column in columns:
        first[1:] |= column[1:, 0] != column[:-1, 0]
    return first
