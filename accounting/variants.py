"""Layouts one change away from a candidate's: what makes a run fit, and what a run with room could do instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accounting.constraints import reasons
from accounting.scenario import Layout, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """One change of a layout's columns."""

    luxury: bool
    """Takes memory and may save time; else the reverse."""
    applies: Callable[[Layout], NDArray[np.bool_]]
    """Which candidates it makes sense for. [(N, 1)]"""
    made: Callable[[Layout], Layout]
    name: Callable[[Layout, int], str]
    """As the request would say it, of a row of the changed layout."""


def _even(amount: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.equal(amount % 2, 0)


def _halved(layout: Layout) -> Layout:
    return replace(layout, micro_batch_size=layout.micro_batch_size // 2, micro_batches=layout.micro_batches * 2)


def _doubled(layout: Layout) -> Layout:
    return replace(layout, micro_batch_size=layout.micro_batch_size * 2, micro_batches=layout.micro_batches // 2)


def _split(layout: Layout) -> Layout:
    return replace(layout, sequence_parallel=np.ones_like(layout.sequence_parallel))


def _whole(layout: Layout) -> Layout:
    return replace(layout, dp_shard=layout.data_parallel, dp_replicate=np.ones_like(layout.dp_replicate))


def _micro_batch(layout: Layout, row: int) -> str:
    return f"batch.micro_batch_size={int(layout.micro_batch_size[row, 0])}"


LAYOUT_CHANGES: tuple[LayoutChange, ...] = (
    LayoutChange(luxury=False, applies=lambda layout: _even(layout.micro_batch_size), made=_halved, name=_micro_batch),
    LayoutChange(
        luxury=False,
        applies=lambda layout: (layout.tp > 1) & ~layout.sequence_parallel,
        made=_split,
        name=lambda layout, row: "parallelism.sequence_parallel=true",
    ),
    LayoutChange(
        luxury=False,
        applies=lambda layout: layout.dp_replicate > 1,
        made=_whole,
        name=lambda layout, row: f"parallelism.dp_shard={int(layout.dp_shard[row, 0])}",
    ),
    LayoutChange(luxury=True, applies=lambda layout: _even(layout.micro_batches), made=_doubled, name=_micro_batch),
)
"""In the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Variants:
    """The candidates that one change makes sense for, with it."""

    change: LayoutChange
    candidates: NDArray[np.int64]
    """Which row of the original each row is of. [(rows,)]"""
    scenario: Scenario

    def name(self, row: int) -> str:
        """The change as the request would say it."""
        return self.change.name(self.scenario.layout, row)


def variants_of(scenario: Scenario, *, luxury: bool | None = None) -> list[Variants]:
    """Every change that makes sense for some candidate and gives a layout its engine runs; of one kind, or of both."""
    found = []
    for change in LAYOUT_CHANGES:
        if luxury is not None and change.luxury is not luxury:
            continue
        candidates = np.flatnonzero(change.applies(scenario.layout))
        if candidates.size:
            chosen = scenario.take(candidates)
            changed = replace(chosen, layout=change.made(chosen.layout))
            runs = legal(changed)
            if not runs.all():
                candidates, changed = candidates[runs], changed.take(np.flatnonzero(runs))
            found.append(Variants(change, candidates, changed))
    return [variants for variants in found if variants.candidates.size]


def legal(scenario: Scenario) -> NDArray[np.bool_]:
    """Which candidates break no rule. [(N,)]"""
    kept: NDArray[np.bool_] = reasons(scenario.recipe, scenario.layout)[:, 0] == 0
    return kept
