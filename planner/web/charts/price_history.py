"""Prices over time: one step line per provider, its name and price at the line, a dot where it was last seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from planner.web import format as text
from planner.web.charts.scale import nice_step
from planner.web.charts.scatter_axes import Tick

HEIGHT = 240
_LABEL_ROOM = 16.0
_MOST_LINES = 6
_DATE_TICKS = 4


@dataclass(frozen=True)
class PricePoint:
    """US dollars per device-hour from a day on."""

    day: date
    usd: float


@dataclass(frozen=True)
class PriceLine:
    """One provider: points in a 100 by 100 box, the last one in per cent and pixels, and its label."""

    name: str
    points: str
    tone: int
    end_x: float
    end_y: float
    label_y: float
    label: str
    note: str


@dataclass(frozen=True)
class PriceHistory:
    """The whole figure, and its rows as a table."""

    lines: tuple[PriceLine, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    points: tuple[tuple[str, PricePoint], ...]
    """Provider and price of every step, the cheapest provider first."""
    title: str
    left_out: int
    height: int = HEIGHT

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """The same as a table: provider, day, price."""
        return tuple((name, text.day(point.day), text.money_fine(point.usd)) for name, point in self.points)


def price_history(
    offers: Mapping[str, Sequence[PricePoint]], last_seen: Mapping[str, date], today: date
) -> PriceHistory | None:
    """Lay out every provider's prices, oldest first; the cheapest ones where there are many. None without prices."""
    known = {name: sorted(points, key=lambda point: point.day) for name, points in offers.items() if points}
    if not known:
        return None
    ordered = sorted(known, key=lambda name: (known[name][-1].usd, name))
    shown = ordered[:_MOST_LINES]
    first = min(known[name][0].day for name in shown)
    first = min(first, today - timedelta(days=90))
    most = max(point.usd for name in shown for point in known[name])
    step = nice_step(most)
    top = step * (int(most / step) + 1)
    days = (today - first).days

    def x(day: date) -> float:
        return 100.0 * (day - first).days / days

    def y(usd: float) -> float:
        return 100.0 * (1 - usd / top)

    lines = []
    taken: list[float] = []
    for place, name in enumerate(shown):
        points, seen = known[name], max(last_seen[name], known[name][-1].day)
        at_x, at_y = x(min(seen, today)), y(points[-1].usd) * HEIGHT / 100
        lines.append(
            PriceLine(
                name=name,
                points=_steps([(x(point.day), y(point.usd)) for point in points], at_x),
                tone=place + 1,
                end_x=at_x,
                end_y=at_y,
                label_y=_free(at_y + 4, taken),
                label=f"{name} {text.money_fine(points[-1].usd)}",
                note="" if seen >= today else f" ({text.day(seen)})",
            )
        )
    return PriceHistory(
        lines=tuple(lines),
        x_ticks=tuple(
            Tick(x(day), text.day(day))
            for day in (first + timedelta(days=days * n // _DATE_TICKS) for n in range(_DATE_TICKS + 1))
        ),
        y_ticks=tuple(Tick(y(value) * HEIGHT / 100, text.money_fine(value)) for value in _multiples(step, top)),
        points=tuple((name, point) for name in ordered for point in known[name]),
        title=f"Price per GPU-hour. Lowest now: {shown[0]} at {text.money_fine(known[shown[0]][-1].usd)}.",
        left_out=len(ordered) - len(shown),
    )


def _multiples(step: float, top: float) -> list[float]:
    return [step * place for place in range(round(top / step) + 1)]


def _steps(points: Sequence[tuple[float, float]], end: float) -> str:
    (x, y), *rest = points
    path = f"M{x:.2f} {y:.2f}" + "".join(f"H{nx:.2f}V{ny:.2f}" for nx, ny in rest)
    return f"{path}H{max(end, points[-1][0]):.2f}"


def _free(wanted: float, taken: list[float]) -> float:
    """The nearest height to `wanted` where a label meets no other one."""
    heights = (wanted + sign * step * _LABEL_ROOM / 2 for step in range(HEIGHT) for sign in (-1, 1))
    inside = (y for y in heights if _LABEL_ROOM / 2 <= y <= HEIGHT)
    found = next(y for y in inside if all(abs(y - other) >= _LABEL_ROOM for other in taken))
    taken.append(found)
    return found


def spark(points: Sequence[PricePoint], today: date, days: int = 90) -> str:
    """The lowest price over the last days as points of a 100 by 24 box; empty without a price."""
    if not points:
        return ""
    start = today - timedelta(days=days)
    inside = [point for point in points if point.day >= start]
    before = [point for point in points if point.day < start]
    held = [PricePoint(start, before[-1].usd)] if before and not (inside and inside[0].day == start) else []
    held += inside
    low, high = min(point.usd for point in held), max(point.usd for point in held)
    room = high - low or 1.0

    def y(usd: float) -> float:
        return 20.0 - 16.0 * (usd - low) / room if high > low else 12.0

    found: list[str] = []
    for point in held:
        x = 2 + 96 * (point.day - start).days / days
        if found:
            found.append(f"{x:.1f},{found[-1].split(',')[1]}")
        found.append(f"{x:.1f},{y(point.usd):.1f}")
    return " ".join([*found, f"98.0,{y(held[-1].usd):.1f}"])
