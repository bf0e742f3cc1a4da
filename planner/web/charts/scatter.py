"""Cost against time: every candidate that fits and has a price, the frontier as steps, both axes log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.web import format as text
from planner.web.charts.marker import SHAPES
from planner.web.charts.scale import LogAxis
from planner.web.charts.scatter_axes import HEIGHT, Fence, Tick, budget_fence, deadline_fence, with_limit, x_ticks, y_of
from planner.web.charts.scatter_labels import Mark, labelled
from planner.web.words import Json

MOST_POINTS = 400
_FRONTIER_FROM = 2
_FAR = 8
_ROOM_FOR_LABELS = 0.16
_CELL_X, _CELL_Y = 1.2, 10.0
"""Per cent and pixels: of the dominated candidates in such a cell only the cheapest is drawn."""


@dataclass(frozen=True)
class Scatter:
    """The whole figure."""

    rest: tuple[Mark, ...]
    front: tuple[Mark, ...]
    path: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    deadline: Fence | None
    budget: Fence | None
    legend: tuple[tuple[str, str], ...]
    title: str
    shown: int
    whole: int
    """All candidates that fit and have a price."""
    drawn: int
    far: int
    """Candidates left out because they cost or last many times what the frontier does."""
    height: int = HEIGHT


@dataclass(frozen=True)
class Reading:
    """What the chart needs beside the points: names, links and the limits of the request."""

    names: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[int, str] = field(default_factory=dict)
    deadline_hours: float | None = None
    budget_usd: float | None = None
    chosen_rank: int = 1


def scatter(points: Sequence[Json], reading: Reading) -> Scatter | None:
    """Place every fitting, priced point; None where no point has both hours and dollars."""
    drawable = [point for point in points if _drawable(point)][:MOST_POINTS]
    if not drawable:
        return None
    shown = _near_the_frontier(drawable)
    x_axis = LogAxis.around(with_limit([point["hours"] for point in shown], reading.deadline_hours))
    y_axis = LogAxis.around(with_limit([point["usd"] for point in shown], reading.budget_usd), below=_ROOM_FOR_LABELS)
    shapes = _shapes(shown)
    front = sorted((point for point in shown if point.get("frontier")), key=lambda point: point["hours"])
    axes = (x_axis, y_axis)
    named = [_mark(point, reading, axes, shapes) for point in shown if _has_a_name(point)]
    others = [_mark(point, reading, axes, shapes) for point in shown if not _has_a_name(point)]
    rest = _thinned(others)
    deadline = deadline_fence(x_axis, reading.deadline_hours)
    wanted = [_mark(point, reading, axes, shapes) for point in _worth_a_name(shown, front, reading.chosen_rank)]
    path, corners = _steps(front, axes, reading.deadline_hours)
    return Scatter(
        rest=rest,
        front=labelled(sorted(named, key=lambda mark: mark.x), wanted, rest, corners, deadline),
        path=path,
        x_ticks=x_ticks(x_axis),
        y_ticks=tuple(Tick(y_of(y_axis, at), f"${text.plain(round(at, 4))}") for at in y_axis.ticks()),
        deadline=deadline,
        budget=budget_fence(y_axis, reading.budget_usd),
        legend=_legend(shapes, reading.names),
        title=_title(front),
        shown=len(shown),
        whole=len(drawable),
        drawn=len(named) + len(rest),
        far=len(drawable) - len(shown),
    )


def _worth_a_name(points: Sequence[Json], front: Sequence[Json], chosen_rank: int) -> list[Json]:
    """The chosen, the fastest, then the cheapest of each count on the frontier: labels are tried in this order."""
    chosen = [point for point in points if point.get("rank") == chosen_rank]
    cheapest: dict[object, Json] = {}
    for point in sorted(front, key=lambda row: row["usd"]):
        cheapest.setdefault((point["accelerator"], point["count"]), point)
    return [*chosen, *front[:1], *cheapest.values()]


def _thinned(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """One dominated candidate a cell: marks on top of each other say no more than one."""
    kept: dict[tuple[int, int], Mark] = {}
    for mark in sorted(marks, key=lambda mark: -mark.y):
        kept.setdefault((int(mark.x / _CELL_X), int(mark.y / _CELL_Y)), mark)
    return tuple(kept.values())


def _drawable(point: Json) -> bool:
    return bool(point.get("fits", True)) and (point.get("hours") or 0) > 0 and (point.get("usd") or 0) > 0


def _near_the_frontier(points: list[Json]) -> list[Json]:
    """Points so far off that they would squeeze the frontier into a corner are left out, and counted."""
    own = [point for point in points if _has_a_name(point)] or points
    usd, hours = _FAR * min(point["usd"] for point in own), _FAR * max(point["hours"] for point in own)
    return [point for point in points if _has_a_name(point) or (point["usd"] <= usd and point["hours"] <= hours)]


def _has_a_name(point: Json) -> bool:
    """On the frontier, or one of the options."""
    return bool(point.get("frontier")) or point.get("rank") is not None


def _shapes(points: Sequence[Json]) -> dict[str, str]:
    """Marker shapes in order of first appearance on the frontier, then among the rest."""
    ordered = sorted(points, key=lambda point: (not point.get("frontier"), point["usd"]))
    slugs = list(dict.fromkeys(str(point["accelerator"]) for point in ordered))
    return {slug: SHAPES[min(place, len(SHAPES) - 1)] for place, slug in enumerate(slugs)}


def _legend(shapes: Mapping[str, str], names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """One entry a shape; the last shape stands for all further types together."""
    own = [(shape, names.get(slug, slug)) for slug, shape in shapes.items() if shape != SHAPES[-1]]
    shared = [names.get(slug, slug) for slug, shape in shapes.items() if shape == SHAPES[-1]]
    if len(shared) > 1:
        own.append((SHAPES[-1], f"{len(shared)} other types"))
    elif shared:
        own.append((SHAPES[-1], shared[0]))
    return tuple(own)


def _mark(point: Json, reading: Reading, axes: tuple[LogAxis, LogAxis], shapes: Mapping[str, str]) -> Mark:
    rank = point.get("rank")
    chosen = rank is not None and rank == reading.chosen_rank
    slug = str(point["accelerator"])
    title = f"{point['count']:,} \u00d7 {reading.names.get(slug, slug)}: " + ", ".join(
        (text.hours_in_words(point["hours"]), text.money(point["usd"]))
    )
    return Mark(
        x=100 * axes[0].position(point["hours"]),
        y=y_of(axes[1], point["usd"]),
        shape=shapes[slug],
        state="on" if chosen else "f" if point.get("frontier") else "",
        href="" if rank is None else reading.links.get(rank, ""),
        name=title,
        label=f"{point['count']:,} \u00d7 {_short(reading.names, slug)}",
        money=text.money(point["usd"]),
    )


def _short(names: Mapping[str, str], slug: str) -> str:
    """The first word of a name is the chip: 'H100' of 'H100 SXM5 80 GB'."""
    return (names.get(slug, slug).split() or [slug])[0]


def _steps(
    front: Sequence[Json], axes: tuple[LogAxis, LogAxis], deadline: float | None
) -> tuple[str, tuple[tuple[float, float], ...]]:
    """The frontier as steps in a 100 by 100 box, along the time until the next, cheaper one, then down; its corners."""
    if len(front) < _FRONTIER_FROM:
        return "", ()
    x_axis, y_axis = axes
    at = [(100 * x_axis.position(row["hours"]), 100 * (1 - y_axis.position(row["usd"]))) for row in front]
    path = f"M{at[0][0]:.2f} {at[0][1]:.2f}" + "".join(f"H{x:.2f}V{y:.2f}" for x, y in at[1:])
    if deadline and x_axis.low <= deadline <= x_axis.high and 100 * x_axis.position(deadline) > at[-1][0]:
        path += f"H{100 * x_axis.position(deadline):.2f}"
        at.append((100 * x_axis.position(deadline), at[-1][1]))
    return path, tuple(at)


def _title(front: Sequence[Json]) -> str:
    intro = "Cost of the whole job against hours, both on log scales."
    if not front:
        return intro
    first, last = front[0], front[-1]
    if first is last:
        return f"{intro} One candidate is both fastest and cheapest: {_ends(first)}."
    return f"{intro} The frontier runs from {_ends(first)} to {_ends(last)}."


def _ends(point: Json) -> str:
    return f"{text.hours_in_words(point['hours'])} at {text.money(point['usd'])}"
