"""Direct labels beside their marks: each takes the first place where it meets no mark, no line and no other label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LETTER = 6.9
"""Pixels of a letter at 12.5 px, the bold ones included."""
LINE = 15.0
_INSIDE, _PASSING = 40.0, 1.0


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def shared(self, other: Box) -> float:
        """Square pixels that two boxes have in common."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across * down if across > 0 and down > 0 else 0.0


@dataclass(frozen=True)
class Spot:
    """Where a label stands: its offset from the mark in pixels, and which end of it is there."""

    dx: float
    dy: float
    anchor: str


SPOTS = (
    Spot(0, 24, "mid"),
    Spot(11, 18, ""),
    Spot(-11, 18, "end"),
    Spot(12, 4, ""),
    Spot(-12, 4, "end"),
    Spot(0, -13, "mid"),
    Spot(10, -9, ""),
    Spot(-10, -9, "end"),
)
"""Places to try, the best first: below reads as belonging to the mark, above lies among dearer candidates."""


def box_at(x: float, y: float, spot: Spot, words: str) -> Box:
    """The room of a text whose mark is at x, y."""
    width = LETTER * len(words)
    left = x + spot.dx - {"": 0.0, "mid": width / 2, "end": width}[spot.anchor]
    return Box(left, y + spot.dy - LINE + 3, left + width, y + spot.dy + 3)


def around(x: float, y: float, radius: float) -> Box:
    """The room of a mark."""
    return Box(x - radius, y - radius, x + radius, y + radius)


def place(at: tuple[float, float], words: str, plot: Box, firm: Sequence[Box], soft: Iterable[Box]) -> Spot | None:
    """The first spot that is inside the plot and free of `firm` boxes, of those the one that covers least of `soft`.

    None where every spot meets something firm: a label that cannot be read is worse than none.
    """
    passing = list(soft)
    found: tuple[float, int, Spot] | None = None
    for order, spot in enumerate(SPOTS):
        own = box_at(*at, spot, words)
        inside = own.left >= plot.left and own.right <= plot.right and own.top >= plot.top and own.bottom <= plot.bottom
        if not inside or any(own.shared(box) for box in firm):
            continue
        covered = _PASSING * sum(own.shared(box) for box in passing) + _INSIDE * order
        if found is None or covered < found[0]:
            found = (covered, order, spot)
    return None if found is None else found[2]
