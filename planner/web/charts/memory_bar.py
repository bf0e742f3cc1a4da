"""The stacked memory bar against the capacity of the card, with the likely range under it."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.units import GIB
from planner.web import format as text
from planner.web.charts.scale import linear_step
from planner.web.ledger import Ledger, LedgerRow

_ROOM = 1.045
_LETTER_FROM = 2.2
_LETTER_FROM_NARROW = 3.2
_SENTENCE_LEFT_FROM = 45.0
_CAPACITY_LABEL_LEFT_FROM = 18.0
_OVER_LABEL_TO = 88.0


@dataclass(frozen=True)
class Segment:
    """One bucket of the bar: left edge and width in per cent of the drawing."""

    x: float
    width: float
    row: LedgerRow

    @property
    def middle(self) -> float:
        """Where the letter stands."""
        return self.x + self.width / 2

    @property
    def letter(self) -> bool:
        """Whether the letter has room."""
        return bool(self.row.tone) and self.width >= _LETTER_FROM

    @property
    def wide_only(self) -> bool:
        """Whether the letter has room on wide pages only."""
        return self.width < _LETTER_FROM_NARROW

    @property
    def title(self) -> str:
        """The name and size, shown by the browser over the segment."""
        return f"{self.row.name}: {text.memory(self.row.size, 2)}"


@dataclass(frozen=True)
class Tick:
    """A mark of an axis."""

    x: float
    label: str


@dataclass(frozen=True)
class MemoryBar:
    """All positions of the figure, in per cent of its width. Those that need a capacity are None without one."""

    name: str
    segments: tuple[Segment, ...]
    expected: float
    low: float
    high: float
    limit: float | None
    capacity: float | None
    axis_end: float
    ticks: tuple[Tick, ...]
    sentence: str
    likely: str
    capacity_label: str
    limit_label: str
    over_label: str
    description: str

    @property
    def free_width(self) -> float:
        """Width of the part that is kept free."""
        return 0.0 if self.limit is None or self.capacity is None else self.capacity - self.limit

    @property
    def over_width(self) -> float:
        """Width of what lies past the capacity."""
        return 0.0 if self.capacity is None else max(self.expected - self.capacity, 0.0)

    @property
    def sentence_left(self) -> bool:
        """Whether the sentence stands left of the whisker."""
        return self.low >= _SENTENCE_LEFT_FROM

    @property
    def capacity_label_left(self) -> bool:
        """Whether the capacity label ends at its line; a line far to the left has its label on the right."""
        return self.capacity is not None and self.capacity >= _CAPACITY_LABEL_LEFT_FROM

    @property
    def over_inside(self) -> bool:
        """Whether the overrun's label ends at the need, because beside the capacity line it has no room."""
        return self.capacity is not None and not _CAPACITY_LABEL_LEFT_FROM <= self.capacity <= _OVER_LABEL_TO

    @property
    def limit_label_at(self) -> float:
        """Where the kept-free label is tied to."""
        return self.capacity if self.capacity is not None and self.limit_label_left else 0.0

    @property
    def limit_label_left(self) -> bool:
        """Whether the kept-free label ends at the capacity line."""
        return self.capacity is not None and self.capacity >= _SENTENCE_LEFT_FROM


def memory_bar(
    name: str, ledger: Ledger, capacity: int | None, band: tuple[int, int] | None, kept_free: float
) -> MemoryBar:
    """Lay the ledger out against `capacity` bytes.

    `kept_free` is a fraction of the capacity, `band` low and high bytes; `name` makes the ids of the
    figure unique on its page.
    """
    low, high = band or (ledger.device, ledger.device)
    whole = _ROOM * max(capacity or 0, ledger.device, high if capacity is None or high > capacity else 0)

    def at(size: float) -> float:
        return 100.0 * size / whole

    ticks = _ticks(whole)
    limit = None if capacity is None or not kept_free else capacity * (1 - kept_free)
    return MemoryBar(
        name=name,
        segments=_segments(ledger, whole),
        expected=at(ledger.device),
        low=at(low),
        high=at(high),
        limit=None if limit is None else at(limit),
        capacity=None if capacity is None else at(capacity),
        axis_end=max(at(whole / _ROOM), ticks[-1].x),
        ticks=ticks,
        sentence=text.memory(ledger.device),
        likely=_likely(low, high),
        capacity_label=f"capacity {text.capacity(capacity)}",
        limit_label="" if limit is None else f"{_percent(kept_free)} kept free, from {text.capacity(int(limit))}",
        over_label=_over(ledger.device, capacity),
        description=f"Expected {text.memory(ledger.device)} of {text.capacity(capacity)}{_likely(low, high)}. "
        "The ledger table has every part.",
    )


def _segments(ledger: Ledger, whole: float) -> tuple[Segment, ...]:
    """Buckets side by side; edges come from summed bytes, so that rounding never opens a gap."""
    found, before = [], 0
    for row in (*ledger.rows, *ledger.outside):
        found.append(Segment(100.0 * before / whole, 100.0 * row.size / whole, row))
        before += row.size
    return tuple(found)


def _ticks(whole: float) -> tuple[Tick, ...]:
    length = whole / GIB
    step = linear_step(length / _ROOM)
    marks = range(int(length / step) + 1)
    return tuple(
        Tick(100.0 * mark * step / length, f"0{text.NBSP}GiB" if mark == 0 else text.plain(round(mark * step, 3)))
        for mark in marks
    )


def _likely(low: int, high: int) -> str:
    return "" if low == high else f", likely {text.gib_number(low, 1)} to {text.gib_number(high, 1)}"


def _over(device: int, capacity: int | None) -> str:
    return "" if capacity is None or device <= capacity else f"{text.memory(device - capacity)} over"


def _percent(part: float) -> str:
    return f"{text.plain(round(100 * part, 1))}{text.NBSP}%"
