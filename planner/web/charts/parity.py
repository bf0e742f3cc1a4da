"""Predicted against measured on log axes: the diagonal, ten per cent either side, one mark a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.web import format as text
from planner.web.charts.marker import SHAPES
from planner.web.charts.scale import LogAxis
from planner.web.charts.scatter_axes import Tick

HEIGHT = 320
TOLERANCE = 0.10


@dataclass(frozen=True)
class Pair:
    """One run: GiB (or seconds) measured and predicted, its group and its page."""

    measured: float
    predicted: float
    group: str
    name: str
    href: str


@dataclass(frozen=True)
class ParityMark:
    """One run on the drawing: x in per cent, y in pixels."""

    x: float
    y: float
    shape: str
    name: str
    href: str


@dataclass(frozen=True)
class Parity:
    """The whole figure. Lines are points in a 100 by 100 box."""

    marks: tuple[ParityMark, ...]
    diagonal: str
    above: str
    below: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    legend: tuple[tuple[str, str], ...]
    title: str
    unit: str
    height: int = HEIGHT


def parity(pairs: Sequence[Pair], unit: str) -> Parity | None:
    """Place every run; None without any."""
    known = [pair for pair in pairs if pair.measured > 0 and pair.predicted > 0]
    if not known:
        return None
    axis = LogAxis.around([value for pair in known for value in (pair.measured, pair.predicted)])
    groups = list(dict.fromkeys(pair.group for pair in known))
    shapes = {group: SHAPES[min(place, len(SHAPES) - 1)] for place, group in enumerate(groups)}
    near = sum(abs(pair.predicted / pair.measured - 1) <= TOLERANCE for pair in known)
    ticks = axis.ticks()
    return Parity(
        marks=tuple(
            ParityMark(
                100 * axis.position(pair.measured),
                HEIGHT * (1 - axis.position(pair.predicted)),
                shapes[pair.group],
                pair.name,
                pair.href,
            )
            for pair in known
        ),
        diagonal=_line(axis, 1.0),
        above=_line(axis, 1 + TOLERANCE),
        below=_line(axis, 1 / (1 + TOLERANCE)),
        x_ticks=tuple(Tick(100 * axis.position(tick), text.plain(round(tick, 6))) for tick in ticks),
        y_ticks=tuple(Tick(HEIGHT * (1 - axis.position(tick)), text.plain(round(tick, 6))) for tick in ticks),
        legend=tuple((shapes[group], group) for group in groups[: len(SHAPES)]),
        title=f"Predicted against measured, {unit}: {near:,} of {len(known):,} runs within 10 %.",
        unit=unit,
    )


def _line(axis: LogAxis, factor: float) -> str:
    ends = ((axis.low, axis.low * factor), (axis.high, axis.high * factor))
    (x1, y1), (x2, y2) = ((100 * axis.position(x), 100 * (1 - axis.position(y))) for x, y in ends)
    return f"M{x1:.2f} {y1:.2f}L{x2:.2f} {y2:.2f}"
