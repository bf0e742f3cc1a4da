"""Allocated memory through one step: five phases, a sketched curve through their peaks, the capacity line."""

from __future__ import annotations

from dataclasses import dataclass

from planner.web import format as text
from planner.web.words import PHASES, Json

_WIDTHS = (14.0, 30.0, 30.0, 12.0, 14.0)
_TOP, _BOTTOM = 8.0, 140.0
_HEIGHT = _BOTTOM - _TOP
_ROOM = 1.08
_RISE_ENDS = 44.0
_BACKWARD_PEAK = 45.2
_LABEL_LEFT_FROM = 60.0
_LINE_HEIGHT = 16.0


@dataclass(frozen=True)
class PhaseMark:
    """One phase under the axis."""

    middle: float
    end: float
    label: str
    short: str
    value: str


@dataclass(frozen=True)
class StepMemory:
    """The figure: `line` and `area` are points in a 100 by 100 box, y pixels are given for the rest."""

    line: str
    area: str
    phases: tuple[PhaseMark, ...]
    capacity_y: float | None
    capacity_label: str
    peak_x: float
    peak_y: float
    peak_label: str
    peak_note: str
    title: str

    top: float = _TOP

    @property
    def capacity_text_y(self) -> float:
        """The capacity label stands on its line, or under it where the line is at the very top."""
        line = self.capacity_y or 0.0
        return line - 5 if line > _TOP + _LINE_HEIGHT / 2 else line + _LINE_HEIGHT

    @property
    def peak_text_y(self) -> float:
        """The label stands beside its dot, moved down where the capacity line would cross it."""
        near = self.capacity_y is not None and abs(self.peak_y - self.capacity_y) < _LINE_HEIGHT
        return self.peak_y + (_LINE_HEIGHT + 2 if near else 5)

    @property
    def label_left(self) -> bool:
        """Whether the peak's label stands left of its dot."""
        return self.peak_x >= _LABEL_LEFT_FROM


def step_memory(answer_memory: Json) -> StepMemory | None:
    """Read the five peaks of an estimate answer; None where the answer has no phases."""
    phases = answer_memory.get("by_phase") or {}
    sizes = [phases.get(slug) for slug, _, _ in PHASES]
    if any(size is None for size in sizes):
        return None
    values = [int(size) for size in sizes if size is not None]
    capacity = answer_memory.get("capacity_bytes")
    whole = max(capacity or 0, *values) * _ROOM or 1
    points = _curve(values)
    box = " ".join(f"{x:.1f},{100 - 100 * size / whole:.1f}" for x, size in points)
    slug = str(answer_memory.get("peak_phase"))
    peak = values[_index(slug)]
    moment = (answer_memory.get("moment_by_phase") or {}).get(slug)
    return StepMemory(
        line=box,
        area=f"0,100 {box} 100,100",
        phases=_marks(values),
        capacity_y=None if capacity is None else _y(capacity, whole),
        capacity_label=f"capacity {text.capacity(capacity)}",
        peak_x=_peak_x(_index(slug)),
        peak_y=_y(peak, whole),
        peak_label=f"peak {text.memory(peak)}",
        peak_note=f", {_words(slug)}" + (f": {moment}" if moment else ""),
        title="Allocated memory through one step: "
        + ", ".join(
            f"{words} {text.gib_number(size, 1)}" + (" (peak)" if key == slug else "")
            for (key, _, words), size in zip(PHASES, values, strict=True)
        )
        + " GiB",
    )


def _y(size: float, whole: float) -> float:
    return _TOP + _HEIGHT * (1 - size / whole)


def _index(slug: str) -> int:
    return next(place for place, row in enumerate(PHASES) if row[0] == slug)


def _words(slug: str) -> str:
    return PHASES[_index(slug)][2]


def _peak_x(index: int) -> float:
    """Forward and backward peak where they meet; the other phases in their middle."""
    return {1: _RISE_ENDS, 2: _BACKWARD_PEAK}.get(index, sum(_WIDTHS[:index]) + _WIDTHS[index] / 2)


def _curve(values: list[int]) -> list[tuple[float, int]]:
    """Load level, rise through forward, peak of backward at its start, fall to the step, the step, the save."""
    load, forward, backward, step, save = values
    return [
        (0.0, load),
        (14.0, load),
        (_RISE_ENDS, forward),
        (_BACKWARD_PEAK, backward),
        (74.0, min(step, backward)),
        (74.0, step),
        (86.0, step),
        (86.0, save),
        (100.0, save),
    ]


def _marks(values: list[int]) -> tuple[PhaseMark, ...]:
    found, start = [], 0.0
    for (_, label, _), width, size in zip(PHASES, _WIDTHS, values, strict=True):
        short = "step" if label == "optimizer step" else label
        found.append(PhaseMark(start + width / 2, start + width, label, short, text.gib_number(size, 1)))
        start += width
    return tuple(found)
