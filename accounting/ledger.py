"""Named rows of bytes over the moments of a step; what the answer prints is read from here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from accounting.units import Bytes
from accounting.vocabulary import Bucket, Phase

if TYPE_CHECKING:
    from accounting.memory.context import Context


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """One instant of a phase at which the peak may stand; there are those of MOMENTS, each itself and no other."""

    phase: Phase
    name: str


MOMENTS: tuple[Moment, ...] = (
    Moment(Phase.INITIALISATION, "load"),
    Moment(Phase.FORWARD, "first gather"),
    Moment(Phase.FORWARD, "block"),
    Moment(Phase.FORWARD, "loss"),
    Moment(Phase.BACKWARD, "loss"),
    Moment(Phase.BACKWARD, "last block"),
    Moment(Phase.BACKWARD, "next-to-last block"),
    Moment(Phase.BACKWARD, "first block"),
    Moment(Phase.BACKWARD, "gradient reduction"),
    Moment(Phase.OPTIMIZER_STEP, "optimizer"),
    Moment(Phase.CHECKPOINT_SAVE, "save"),
)
(
    LOAD,
    FIRST_GATHER,
    FORWARD_BLOCK,
    FORWARD_LOSS,
    BACKWARD_LOSS,
    LAST_BLOCK,
    NEXT_BLOCK,
    FIRST_BLOCK,
    REDUCTION,
    STEP,
    SAVE,
) = MOMENTS
FORWARD_MOMENTS = (FIRST_GATHER, FORWARD_BLOCK, FORWARD_LOSS)
BACKWARD_MOMENTS = (BACKWARD_LOSS, LAST_BLOCK, NEXT_BLOCK, FIRST_BLOCK, REDUCTION)

ByMoment = Mapping[Moment, Bytes | int]
"""Bytes a line holds at each moment; a moment left out holds nothing."""


def always(amount: Bytes | int, but: Mapping[Moment, Bytes | int] | None = None) -> dict[Moment, Bytes | int]:
    """The same bytes at every moment, except those named in `but`."""
    return dict.fromkeys(MOMENTS, amount) | dict(but or {})


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the ledger: a pure function with its place, formula and source."""

    key: str
    """`states.parameters`: what the answer prints as `formula`."""
    bucket: Bucket
    amount: Callable[[Context], ByMoment]
    device: bool = True
    dtype: Callable[[Context], str | None] | None = None
    """What the bytes are stored in, where they have one dtype."""
    divisor: Callable[[Context], Bytes] | None = None
    """Ranks that share them."""

    @property
    def formula(self) -> str:
        """The docstring of the function: one sentence, the equation, phases, source."""
        return (self.amount.__doc__ or "").strip()


@dataclass(frozen=True, slots=True)
class Row:
    """A line with its bytes, int64 of shape (N, S) by moment."""

    line: Line
    by_moment: Mapping[Moment, Bytes]


@dataclass(frozen=True, slots=True)
class Ledger:
    rows: tuple[Row, ...]
    shape: tuple[int, int]
    totals: Mapping[Moment, Bytes] = field(default_factory=dict)
    """Device bytes of each moment, (N, S)."""

    def peak(self) -> Bytes:
        """Largest total over all training moments (the checkpoint's own moment included). [byte, (N, S)]"""
        peak = np.zeros(self.shape, dtype=np.int64)
        for moment in MOMENTS:
            np.maximum(peak, self.totals[moment], out=peak)
        return peak


def fill(lines: tuple[Line, ...], context: Context, standing: Mapping[Moment, Bytes] | None = None) -> Ledger:
    """Evaluate every line once and add up each moment, on top of what `standing` holds there already; it is used up.

    Raises AssertionError where a line gives anything but int64: a float in a byte count is a programmer's error.
    """
    shape = context.partition.shape
    rows = []
    totals = dict(standing or {moment: np.zeros(shape, dtype=np.int64) for moment in MOMENTS})
    for line in lines:
        amounts = {}
        for moment, amount in line.amount(context).items():
            bytes_here = np.asarray(amount)
            assert bytes_here.dtype == np.int64 or isinstance(amount, int), f"{line.key}: {bytes_here.dtype}"
            amounts[moment] = bytes_here
            if line.device:
                totals[moment] += bytes_here
        rows.append(Row(line, amounts))
    return Ledger(tuple(rows), shape, totals)
