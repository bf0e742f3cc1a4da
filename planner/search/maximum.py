"""The largest micro-batch or sequence that fits, all else as asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.constraints import RULES, reasons
from accounting.estimate import estimate, explain
from accounting.scenario import Scenario
from accounting.units import Bytes

PROBES = 48
"""Candidates of one round: the search narrows about that many times a round."""
LONGEST_SEQUENCE = 1 << 27
LARGEST_MICRO_BATCH = 1 << 20
MEANT = tuple(rule for rule in RULES if rule.key in {"too_large", "not_a_divisor", "cp_beyond_sequence"})


def maximum_answer(scenario: Scenario, name: str) -> dict[str, Any]:
    """`{"maximise", "value", "estimate"}`: value is null where not even the smallest fits or the capacity is unknown.

    The estimate is that of the value, or of the smallest value where nothing fits. `name` is `sequence_length` or
    `micro_batch_size`: a divisor of each rank's share of the global batch where several micro-batches were asked for.
    """
    values = _values(scenario, name)
    found = last_true(len(values), lambda indexes: _fits(_with(scenario, name, values[indexes])))
    value = int(values[found]) if found >= 0 else None
    shown = _with(scenario, name, values[[max(found, 0)]])
    return {"maximise": name, "value": value, "estimate": explain([shown])[0]}


def last_true(size: int, holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]]) -> int:
    """The last index below `size` at which a property holds that, once lost, stays lost; -1 where it never holds."""
    low, high = -1, size
    while high - low > 1:
        # Small steps first: what fits is usually nearer to the small end by orders of magnitude.
        steps = np.geomspace(1, high - low - 1, PROBES).astype(np.int64)
        indexes = np.unique(low + steps)
        held = holds(indexes)
        if held.all():
            low = int(indexes[-1])
        else:
            first = int(np.argmin(held))
            low, high = (int(indexes[first - 1]) if first else low), int(indexes[first])
    return low


def _values(scenario: Scenario, name: str) -> Bytes:
    layout = scenario.layout
    if name == "micro_batch_size":
        share = int((layout.micro_batch_size * layout.micro_batches)[0, 0])
        if int(layout.micro_batches[0, 0]) == 1:
            return np.arange(1, LARGEST_MICRO_BATCH + 1, dtype=np.int64)
        small = [value for value in range(1, isqrt(share) + 1) if share % value == 0]
        return np.array(sorted({*small, *(share // value for value in small)}), dtype=np.int64)
    step = int(layout.tp[0, 0]) if bool(layout.sequence_parallel[0, 0]) else 1
    architecture = scenario.recipe.model.architecture
    longest = LONGEST_SEQUENCE
    if architecture is not None and architecture.learned_positions and architecture.max_positions is not None:
        longest = min(longest, architecture.max_positions)
    return np.arange(step, max(longest, step) + 1, step, dtype=np.int64)


def _with(scenario: Scenario, name: str, values: Bytes) -> Scenario:
    """The scenario once for each value; a rank's share of the global batch stays where it was several micro-batches."""
    repeated = scenario.take(np.zeros(len(values), dtype=np.int64))
    layout, column = repeated.layout, values.reshape(-1, 1)
    if name == "sequence_length":
        return replace(repeated, layout=replace(layout, sequence_length=column))
    micro_batches = layout.micro_batches
    if int(micro_batches[0, 0]) > 1:
        micro_batches = layout.micro_batch_size * micro_batches // column
    return replace(repeated, layout=replace(layout, micro_batch_size=column, micro_batches=micro_batches))


def _fits(scenario: Scenario) -> NDArray[np.bool_]:
    broken = reasons(scenario.recipe, scenario.layout, MEANT) != 0
    return np.asarray(estimate(scenario).fits() & ~broken).reshape(-1)
