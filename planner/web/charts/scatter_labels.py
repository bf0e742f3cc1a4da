"""Which points of the cost-against-time chart are named, and where their names stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.web.charts.labels import Box, Spot, around, box_at, place
from planner.web.charts.scatter_axes import HEIGHT, Fence

WIDTH = 1000.0
"""Pixels of the plot on a wide page, where names are placed; on narrow pages two of them stay."""
_FIRM, _LIGHT, _THIN = 7.0, 4.0, 1.5
_ALWAYS = 2
"""The first names, of the chosen and the fastest, show on narrow pages too."""

NOWHERE = Spot(0, 0, "")


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
    spot: Spot = NOWHERE
    """Where the label stands."""

    @property
    def size(self) -> float:
        """Pixels of its outline: the frontier stands out."""
        return 5.5 if self.state else 4.5


def labelled(
    marks: Sequence[Mark],
    wanted: Sequence[Mark],
    rest: Sequence[Mark],
    corners: Sequence[tuple[float, float]],
    deadline: Fence | None,
) -> tuple[Mark, ...]:
    """The named points with their labels placed; one without room for it has none.

    `corners` are the frontier's steps in a 100 by 100 box.
    """
    plot = Box(0, 2, WIDTH, HEIGHT - 2)
    firm = [around(_x(mark), mark.y, _FIRM) for mark in marks]
    if deadline is not None:
        firm.append(Box(deadline.at / 100 * WIDTH, 0, deadline.at / 100 * WIDTH + 190, 20))
    soft = [around(_x(mark), mark.y, _LIGHT) for mark in rest] + _lines(corners)
    placed: dict[Mark, Mark] = {}
    for mark in dict.fromkeys(wanted):
        words = f"{mark.label} \u00b7 {mark.money}"
        # Its own mark is no obstacle: the spots keep clear of it.
        spot = place((_x(mark), mark.y), words, plot, firm, soft)
        if spot is None:
            continue
        firm.append(box_of(mark, spot, words))
        placed[mark] = replace(mark, spot=spot, narrow=len(placed) < _ALWAYS)
    return tuple(placed.get(mark, replace(mark, label="", money="")) for mark in marks)


def box_of(mark: Mark, spot: Spot, words: str) -> Box:
    """The room a placed label takes."""
    return box_at(_x(mark), mark.y, spot, words)


def _x(mark: Mark) -> float:
    return mark.x / 100 * WIDTH


def _lines(corners: Sequence[tuple[float, float]]) -> list[Box]:
    """The frontier as thin boxes: along, then down. They weigh more than marks of dominated candidates."""
    found = []
    at = [(x / 100 * WIDTH, y / 100 * HEIGHT) for x, y in corners]
    for (x1, y1), (x2, y2) in zip(at, at[1:], strict=False):
        found.append(Box(x1, y1 - _THIN, x2, y1 + _THIN))
        found.append(Box(x2 - _THIN, min(y1, y2), x2 + _THIN, max(y1, y2)))
    return found * 3
