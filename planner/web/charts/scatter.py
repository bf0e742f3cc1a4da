"""Cost against time: every candidate that fits and has a price, the frontier as steps, both axes log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.web import format as text
from planner.web.charts.marker import SHAPES
from planner.web.charts.scale import LogAxis
from planner.web.charts.scatter_axes import HEIGHT, Fence, Tick, budget_fence, deadline_fence, with_limit, x_ticks, y_of
from planner.web.words import Json

MOST_POINTS = 400
_LABEL_ROOM_X, _LABEL_ROOM_Y = 15.0, 20.0
_RIGHT_EDGE, _LEFT_EDGE = 88.0, 9.0
_FRONTIER_FROM = 2
_FAR = 8
_ROOM_FOR_LABELS = 0.16
_LABEL_ABOVE_FROM = HEIGHT - 36


@dataclass(frozen=True)
class Mark:
    """One candidate: x in per cent, y in pixels; `href` where a page of its own exists."""

    x: float
    y: float
    shape: str
    state: str
    href: str = ""
    name: str = ""
    label: str = ""
    money: str = ""
    narrow: bool = False

    @property
    def anchor(self) -> str:
        """On which side of its mark the label stands, so that it stays inside the drawing."""
        if self.x > _RIGHT_EDGE:
            return "end"
        return "mid" if self.x > _LEFT_EDGE else ""

    @property
    def label_y(self) -> int:
        """The label stands under its mark, or over it where the axis is too near."""
        room = 26 if self.state == "on" else 24
        return 12 - room if self.y > _LABEL_ABOVE_FROM else room


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
    far: int
    """Candidates left out because they cost or last many times what the frontier does."""
    height: int = HEIGHT


@dataclass(frozen=True)
class _Label:
    """A direct label, and whether it has room on narrow pages too."""

    text: str
    narrow: bool


_NO_LABEL = _Label("", narrow=False)


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
    labels = _labels(front, reading, x_axis, y_axis)
    marks = tuple(_mark(point, reading, (x_axis, y_axis), shapes, labels.get(id(point), _NO_LABEL)) for point in front)
    others = [point for point in shown if not point.get("frontier")]
    return Scatter(
        rest=tuple(_mark(point, reading, (x_axis, y_axis), shapes, _NO_LABEL) for point in others),
        front=marks,
        path=_steps(front, x_axis, y_axis, reading.deadline_hours),
        x_ticks=x_ticks(x_axis),
        y_ticks=tuple(Tick(y_of(y_axis, at), f"${text.plain(round(at, 4))}") for at in y_axis.ticks()),
        deadline=deadline_fence(x_axis, reading.deadline_hours),
        budget=budget_fence(y_axis, reading.budget_usd),
        legend=_legend(shapes, reading.names),
        title=_title(front),
        shown=len(shown),
        far=len(drawable) - len(shown),
    )


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


def _mark(
    point: Json, reading: Reading, axes: tuple[LogAxis, LogAxis], shapes: Mapping[str, str], label: _Label
) -> Mark:
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
        label=label.text,
        money=text.money(point["usd"]) if label.text else "",
        narrow=label.narrow,
    )


def _labels(front: Sequence[Json], reading: Reading, x_axis: LogAxis, y_axis: LogAxis) -> dict[int, _Label]:
    """Names for the chosen, the fastest, and the cheapest of each count where they have room."""
    chosen = [point for point in front if point.get("rank") == reading.chosen_rank]
    cheapest: dict[object, Json] = {}
    for point in sorted(front, key=lambda row: row["usd"]):
        cheapest.setdefault((point["accelerator"], point["count"]), point)
    wanted = [*chosen, *front[:1], *cheapest.values()]
    placed: list[tuple[float, float]] = []
    found: dict[int, _Label] = {}
    for point in wanted:
        at = (100 * x_axis.position(point["hours"]), y_of(y_axis, point["usd"]))
        if id(point) in found or any(_near(at, other) for other in placed):
            continue
        placed.append(at)
        words = f"{point['count']:,} \u00d7 {_short(reading.names, str(point['accelerator']))}"
        found[id(point)] = _Label(words, narrow=point is front[0] or point in chosen)
    return found


def _near(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return abs(one[0] - other[0]) < _LABEL_ROOM_X and abs(one[1] - other[1]) < _LABEL_ROOM_Y


def _short(names: Mapping[str, str], slug: str) -> str:
    """The first word of a name is the chip: 'H100' of 'H100 SXM5 80 GB'."""
    return (names.get(slug, slug).split() or [slug])[0]


def _steps(front: Sequence[Json], x_axis: LogAxis, y_axis: LogAxis, deadline: float | None) -> str:
    """The frontier as steps in a 100 by 100 box: along the time until the next, cheaper one, then down."""
    if len(front) < _FRONTIER_FROM:
        return ""
    at = [(100 * x_axis.position(row["hours"]), 100 * (1 - y_axis.position(row["usd"]))) for row in front]
    path = f"M{at[0][0]:.2f} {at[0][1]:.2f}" + "".join(f"H{x:.2f}V{y:.2f}" for x, y in at[1:])
    if deadline and x_axis.low <= deadline <= x_axis.high and 100 * x_axis.position(deadline) > at[-1][0]:
        path += f"H{100 * x_axis.position(deadline):.2f}"
    return path


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
