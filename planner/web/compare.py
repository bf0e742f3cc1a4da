"""Plans or options side by side: one column each, one row a fact, the differences marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from planner.web import format as text
from planner.web import words
from planner.web.options import memory_of, place, time_of
from planner.web.verdict import machine
from planner.web.words import Json

MOST = 4
Read = Callable[[Json, Mapping[str, str]], str]


@dataclass(frozen=True)
class Side:
    """One option to be compared: where it stands and what it is."""

    name: str
    href: str
    option: Json
    request: Json
    provenance: Json
    made: datetime


@dataclass(frozen=True)
class Line:
    """One fact of every side, and whether they differ."""

    name: str
    values: tuple[str, ...]
    differs: bool
    difference: str = ""


def _estimate(read: Callable[[Json], str]) -> Read:
    return lambda option, names: read(option.get("estimate") or {})


LINES: tuple[tuple[str, Read], ...] = (
    ("GPUs", lambda option, names: machine(option.get("estimate") or {}, names)),
    ("Where", lambda option, names: place(option)),
    ("Sharding", _estimate(words.sharding)),
    ("Layout", _estimate(words.degrees)),
    ("Optimizer", _estimate(lambda estimate: words.optimizer_name(estimate.get("optimizer")))),
    ("Precision", _estimate(lambda estimate: words.precision_name(estimate.get("precision")))),
    ("Recompute", _estimate(lambda estimate: words.recompute_name(estimate.get("recompute")))),
    ("Offload", _estimate(lambda estimate: words.offload_name(estimate.get("offload")) or "none")),
    ("Micro-batch per GPU", _estimate(lambda estimate: str((estimate.get("batch") or {}).get("micro_batch_size", 1)))),
)
NUMBERS: tuple[tuple[str, Callable[[Json], Any], Callable[[Any], str], Callable[[Any], str]], ...] = (
    ("Memory per GPU", lambda option: option.get("device_bytes"), text.need, text.memory_difference),
    ("Free per GPU", lambda option: option.get("headroom_bytes"), text.memory, text.memory_difference),
    ("Time", lambda option: option.get("hours"), text.hours, text.hours_difference),
    ("Cost, whole job", lambda option: option.get("usd"), text.money, text.money_difference),
    ("Cost per hour, all GPUs", lambda option: option.get("usd_per_hour"), text.money_rate, text.money_difference),
    ("Step", lambda option: option.get("step_seconds"), text.duration, lambda value: ""),
    ("MFU", lambda option: time_of(option).get("mfu"), text.fraction, lambda value: ""),
)
BUCKET_LINES = tuple((name, slug) for slug, _, name in words.BUCKETS)


def compare(sides: Sequence[Side], names: Mapping[str, str]) -> tuple[Line, ...]:
    """Every fact side by side; differences of two sides are the second less the first."""
    found = [_line("Asked", [words.plan_title(side.request) for side in sides])]
    found += [_line(name, [read(side.option, names) for side in sides]) for name, read in LINES]
    for name, value, say, differ in NUMBERS:
        values = [value(side.option) for side in sides]
        known = len(values) == 2 and all(number is not None for number in values)  # noqa: PLR2004 - a pair
        more = differ(values[1] - values[0]) if known and values[1] != values[0] else ""
        found.append(_line(name, [say(number) for number in values], more))
    for name, slug in BUCKET_LINES:
        sizes = [(memory_of(side.option).get("by_bucket") or {}).get(slug) for side in sides]
        if any(sizes):
            more = ""
            if len(sizes) == 2 and None not in sizes and sizes[0] != sizes[1]:  # noqa: PLR2004 - a pair
                more = text.memory_difference((sizes[1] or 0) - (sizes[0] or 0))
            found.append(_line(name, [text.memory(size, 2) for size in sizes], more))
    found.append(_line("Catalog revision", [str(side.provenance.get("catalog_revision") or "") for side in sides]))
    found.append(_line("Engine", [str(side.provenance.get("engine_version") or "") for side in sides]))
    return tuple(found)


def _line(name: str, values: Sequence[str], difference: str = "") -> Line:
    return Line(name, tuple(value or text.DASH for value in values), len(set(values)) > 1, difference)
