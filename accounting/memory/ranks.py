"""The states of every rank of a shard group: uneven cuts give neighbours different bytes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from accounting.ledger import STEP, Ledger, fill
from accounting.memory.buffers import persistent_parameters
from accounting.memory.context import Context
from accounting.memory.gradients import fullest_rank
from accounting.memory.host import HOST_LINES
from accounting.memory.states import STATE_LINES
from accounting.scenario import BATCH_COLUMNS, Scenario
from accounting.units import Bytes
from accounting.vocabulary import Place

MOST_LISTED = 64
"""Shard groups up to this size are listed rank by rank in an answer."""
_BATCH = (*BATCH_COLUMNS, "sequence_length")
"""Columns that weights, states and gradients know nothing of."""


@dataclass(frozen=True, slots=True)
class RankStates:
    """Bytes of each rank of one shard group at the optimizer step, int64 of shape (W,)."""

    parameters: Bytes
    """Trainable and frozen weights at rest; DeepSpeed's persistent parameters included."""
    gradients: Bytes
    master_weights: Bytes
    optimizer_states: Bytes
    host: Bytes
    """States, gradients and weights of the rank in host memory, the optimizer's scalars included."""

    @property
    def device(self) -> Bytes:
        """Device bytes of each rank. [byte, (W,)]"""
        return self.parameters + self.gradients + self.master_weights + self.optimizer_states

    def groups(self) -> list[dict[str, Any]]:
        """Neighbouring ranks that hold the same, as JSON values."""
        columns = {item.name: getattr(self, item.name) for item in fields(self)}
        rows = np.stack(list(columns.values()), axis=1)
        starts = np.flatnonzero(np.any(np.diff(rows, axis=0, prepend=-1), axis=1))
        ends = [*(starts[1:] - 1), len(rows) - 1]
        return [
            {"first": int(start), "last": int(end)} | {name: int(values[start]) for name, values in columns.items()}
            for start, end in zip(starts, ends, strict=True)
        ]


def ranks_in_shard_group(scenario: Scenario, index: int = 0) -> int:
    """Ranks that share one copy of a candidate's states."""
    return int((scenario.layout.dp_shard * scenario.layout.cp)[index, 0])


def states_by_rank(scenario: Scenario, index: int = 0, stage: int = 0) -> RankStates:
    """Parameter, gradient and optimizer bytes of every rank of one candidate's shard group, on one pipeline stage.

    The rank is a column like any other: the same lines answer for all of them at once. Raises nothing.
    """
    ways = ranks_in_shard_group(scenario, index)
    rows = np.full(ways, index, dtype=np.int64)
    rank = np.arange(ways, dtype=np.int64).reshape(-1, 1)
    context = Context(scenario.take(rows), shard_rank=rank)
    ledger = fill((*STATE_LINES, *HOST_LINES), context)

    def held(*keys: str) -> Bytes:
        return _held(ledger, keys)[:, stage]

    persistent = np.broadcast_to(persistent_parameters(context).get(STEP, 0), ledger.shape)[:, stage]
    return RankStates(
        parameters=held("states.parameters", "states.frozen_parameters", "states.extra_models") + persistent,
        gradients=held("states.gradients"),
        master_weights=held("states.master_weights"),
        optimizer_states=held("states.optimizer"),
        host=held(*(line.key for line in HOST_LINES)),
    )


def _held(ledger: Ledger, keys: tuple[str, ...]) -> Bytes:
    total = np.zeros(ledger.shape, dtype=np.int64)
    for row in ledger.rows:
        if row.line.key in keys:
            total = total + np.broadcast_to(row.by_moment.get(STEP, np.int64(0)), ledger.shape)
    return total


class Ranks:
    """The states of every rank of the candidates' shard groups; candidates of one layout are asked about once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[tuple[int, ...], list[dict[str, Any]]] = {}

    @cached_property
    def _fullest(self) -> Bytes:
        return np.broadcast_to(fullest_rank(self._context), self._context.partition.shape)

    def answer(self, index: int, stage: int) -> tuple[int, list[dict[str, Any]] | None]:
        """(rank of the shard group that the lines speak of, every rank's states or None beyond MOST_LISTED ranks)."""
        scenario, worst = self._context.scenario, int(self._fullest[index, stage])
        if ranks_in_shard_group(scenario, index) > MOST_LISTED:
            return worst, None
        # Offloaded activations rest on the host as well.
        unread = _BATCH if scenario.recipe.offload.activations is Place.NONE else ()
        layout = scenario.layout
        columns = (getattr(layout, item.name) for item in fields(layout) if item.name not in unread)
        place = (stage, *(int(column[index, 0]) for column in columns))
        if place not in self._known:
            self._known[place] = states_by_rank(scenario, index, stage).groups()
        return worst, [dict(group) for group in self._known[place]]
