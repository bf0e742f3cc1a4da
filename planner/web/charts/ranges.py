"""Ranges on one scale: how far measured lay from predicted, one whisker a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from planner.web import format as text
from planner.web.charts.scatter_axes import Tick

_STEPS = (5, 10, 25, 50, 100)
_MOST_TICKS = 6


@dataclass(frozen=True)
class Measured:
    """What one row rests on: measured over predicted at both ends, and how many runs."""

    name: str
    low: float
    high: float
    runs: int
    noun: str = "runs"


@dataclass(frozen=True)
class Whisker:
    """One row, ends in per cent of the width."""

    name: str
    low: float
    high: float
    label: str
    note: str


@dataclass(frozen=True)
class Ranges:
    """The whole figure; `zero` is where measured equals predicted, in per cent of the width."""

    rows: tuple[Whisker, ...]
    ticks: tuple[Tick, ...]
    zero: float


def ranges(measured: Iterable[Measured]) -> Ranges | None:
    """Place every row that has runs, on one scale; None without any."""
    rows = [row for row in measured if row.runs]
    if not rows:
        return None
    low, high = min(row.low for row in rows), max(row.high for row in rows)
    low, high = min(100 * (low - 1), 0.0) - 3, max(100 * (high - 1), 0.0) + 3

    def at(percent: float) -> float:
        return 100 * (percent - low) / (high - low)

    ticks = tuple(Tick(at(value), signed_percent(value)) for value in _ticks(low, high))
    return Ranges(tuple(_whisker(row, at) for row in rows), ticks, at(0.0))


def _whisker(row: Measured, at: Callable[[float], float]) -> Whisker:
    low, high = 100 * (row.low - 1), 100 * (row.high - 1)
    label = f"{signed_percent(low)} to {signed_percent(high)}"
    return Whisker(row.name, at(low), at(high), label, f"{row.runs:,} {row.noun}")


def _ticks(low: float, high: float) -> Sequence[float]:
    step = next((step for step in _STEPS if (high - low) / step <= _MOST_TICKS), _STEPS[-1])
    first = int(low // step) + 1
    return [float(step * place) for place in range(first, int(high // step) + 1)]


def signed_percent(value: float) -> str:
    """+15 %, −8 %, 0 %."""
    rounded = round(value)
    return text.signed(f"{abs(rounded)}{text.NBSP}%", rounded)
