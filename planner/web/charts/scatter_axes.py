"""Axes of the cost-against-time chart: ticks, and the deadline and budget as fences."""

from __future__ import annotations

from dataclasses import dataclass

from planner.web import format as text
from planner.web.charts.scale import LogAxis

HEIGHT = 300
_TICK_ROOM_NARROW = 16.0


@dataclass(frozen=True)
class Tick:
    """A grid line with its text."""

    at: float
    label: str
    wide: bool = False


@dataclass(frozen=True)
class Fence:
    """A deadline or a budget: where the far side begins, and what it is called."""

    at: float
    size: float
    label: str
    short: str


def with_limit(values: list[float], limit: float | None) -> list[float]:
    """A limit near the points is part of the picture; one far away would squeeze them, so it is only said in words."""
    near = 4
    if limit and min(values) / near <= limit <= max(values) * near:
        return [*values, limit]
    return values


def x_ticks(axis: LogAxis) -> tuple[Tick, ...]:
    """Hours across; a tick close to the last one on a narrow page shows on wide ones only."""
    found: list[Tick] = []
    shown = -100.0
    for hours in axis.ticks():
        at = 100 * axis.position(hours)
        wide = at - shown < _TICK_ROOM_NARROW
        shown = shown if wide else at
        found.append(Tick(at, f"{text.plain(round(hours, 4))}{text.NBSP}h", wide))
    return tuple(found)


def y_of(axis: LogAxis, usd: float) -> float:
    """Pixels from the top for a price."""
    return HEIGHT * (1 - axis.position(usd))


def deadline_fence(axis: LogAxis, limit: float | None) -> Fence | None:
    """The deadline as a line, where the axis shows it."""
    if not limit or not axis.low <= limit <= axis.high:
        return None
    at = 100 * axis.position(limit)
    return Fence(at, 100 - at, f"after the {text.plain(limit)}{text.NBSP}h deadline", "too late")


def budget_fence(axis: LogAxis, limit: float | None) -> Fence | None:
    """The budget as a line, where the axis shows it."""
    if not limit or not axis.low <= limit <= axis.high:
        return None
    at = y_of(axis, limit)
    return Fence(at, at, f"above the {text.money(limit)} budget", "too dear")
