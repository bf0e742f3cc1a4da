"""Where the seconds of a step go: one bar of numbered parts and the table under it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.web import format as text
from planner.web.words import TIME_PARTS, Json

_TONES = (1, 4, 5, 6, 3, 7)
_SHARE_FROM = 20.0
_NUMBER_FROM = 3.0


@dataclass(frozen=True)
class Part:
    """One part of a step. A part of zero seconds keeps its row, with a dash for a key."""

    number: str
    name: str
    seconds: str
    share: str
    tone: int
    x: float
    width: float

    @property
    def middle(self) -> float:
        """Where its number stands."""
        return self.x + self.width / 2

    @property
    def label(self) -> str:
        """What is written in the bar: number and share, number, or nothing."""
        if self.width >= _SHARE_FROM:
            return f"{self.number} \u00b7 {round(self.width)}{text.NBSP}%"
        return self.number if self.width >= _NUMBER_FROM else ""


@dataclass(frozen=True)
class StepTime:
    """The whole figure."""

    parts: tuple[Part, ...]
    total: str
    title: str


def step_time(answer_time: Json | None) -> StepTime | None:
    """Read the `time` of an estimate answer; None where the time is not known."""
    seconds = (answer_time or {}).get("step_seconds")
    if answer_time is None or seconds is None:
        return None
    by_part = answer_time.get("parts") or {}
    whole = sum(by_part.values()) or seconds
    found: list[Part] = []
    before = 0.0
    ordered = [(by_part.get(slug, 0.0), name) for slug, name in TIME_PARTS]
    for place, (value, name) in enumerate(row for row in ordered if row[0] > 0):
        width = 100.0 * value / whole
        spent, part_share = text.seconds_number(value), text.share(value, whole)
        found.append(Part(str(place + 1), name, spent, part_share, _TONES[place], before, width))
        before += width
    found += [
        Part(text.DASH, name, text.seconds_number(value), text.share(value, whole), 0, 0.0, 0.0)
        for value, name in ordered
        if value <= 0
    ]
    listed = ", ".join(f"{part.name} {part.seconds} s" for part in found)
    return StepTime(tuple(found), text.seconds_number(seconds), f"Step time {text.seconds_number(seconds)} s: {listed}")
