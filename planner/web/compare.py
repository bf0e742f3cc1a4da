"""Plans or options side by side: one column each, one row a fact, the differences marked. The command prints it too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.plans.comparison import Side, comparison
from planner.web import format as text
from planner.web import words
from planner.web.options import place, time_of
from planner.web.verdict import machine
from planner.web.words import Json

MOST = 4
PAIR = 2
Read = Callable[[Json, Mapping[str, str]], str]
Say = Callable[[Any], str]


@dataclass(frozen=True)
class Line:
    """One fact of every side, and whether they differ."""

    name: str
    values: tuple[str, ...]
    differs: bool
    difference: str = ""


def _estimate(read: Callable[[Json], str]) -> Read:
    return lambda option, names: read(option.get("estimate") or {})


def _silent(value: Any) -> str:
    return ""


LINES: tuple[tuple[str, Read], ...] = (
    ("GPUs", lambda option, names: machine(option.get("estimate") or {}, names)),
    ("Where", lambda option, names: place(option)),
    ("Price of", lambda option, names: str((option.get("offer") or {}).get("price_date") or "")),
    ("Sharding", _estimate(words.sharding)),
    ("Layout", _estimate(words.degrees)),
    ("Optimizer", _estimate(lambda estimate: words.optimizer_name(estimate.get("optimizer")))),
    ("Precision", _estimate(lambda estimate: words.precision_name(estimate.get("precision")))),
    ("Recompute", _estimate(lambda estimate: words.recompute_name(estimate.get("recompute")))),
    ("Offload", _estimate(lambda estimate: words.offload_name(estimate.get("offload")) or "none")),
    ("Micro-batch per GPU", _estimate(lambda estimate: str((estimate.get("batch") or {}).get("micro_batch_size", 1)))),
)
NUMBERS: tuple[tuple[str, str, Say, Say], ...] = (
    ("Memory per GPU", "device_bytes", text.need, text.memory_difference),
    ("Free per GPU", "headroom_bytes", text.memory, text.memory_difference),
    ("Time", "hours", text.hours, text.hours_difference),
    ("Cost, whole job", "usd", text.money, text.money_difference),
    ("Cost per hour, all GPUs", "usd_per_hour", text.money_rate, text.money_difference),
    ("Step", "step_seconds", text.duration, _silent),
)
SHARES = (("of it by the price", "usd_by_price"), ("of it by the hours", "usd_by_hours"))
"""What the difference in dollars is made of."""
MADE_WITH = (("Catalog revision", "catalog_revision"), ("Engine", "engine_version"), ("Calibration", "calibration"))
BUCKET_LINES = tuple((name, slug) for slug, _, name in words.BUCKETS)


def compare(sides: Sequence[Side], names: Mapping[str, str]) -> tuple[Line, ...]:
    """Every fact side by side, in the words of the pages; differences of two sides are the second less the first."""
    document = comparison(sides)
    changed = document["differences"][1] if len(sides) == PAIR else None
    options = document["options"]
    found = [_line("Asked", [words.plan_title(side.request) for side in sides])]
    found += [_line(pointer, list(map(_short, values))) for pointer, values in document["request"].items()]
    for name, read in LINES:
        found.append(_line(name, [read(side.option, names) if side.option else "" for side in sides]))
    for name, member, say, differ in NUMBERS:
        values = [say(option[member]) if option else "" for option in options]
        found.append(_line(name, values, _said(differ, changed, member)))
        if member == "usd":
            found += _shares(changed, len(sides))
    found.append(_line("MFU", [text.fraction(time_of(option).get("mfu")) if option else "" for option in options]))
    found += _buckets(options, (changed or {}).get("by_bucket"))
    for name, member in MADE_WITH:
        found.append(_line(name, [str(value or "") for value in document["made_with"][member]]))
    return tuple(found)


def _said(differ: Say, changed: Json | None, member: str) -> str:
    """A difference in words; nothing where there is none or it is not known."""
    value = (changed or {}).get(member)
    return differ(value) if value else ""


def _shares(changed: Json | None, count: int) -> list[Line]:
    """The price's and the hours' part of a difference in dollars, where there is one."""
    if not changed or not changed["usd"] or changed["usd_by_price"] is None:
        return []
    return [
        Line(name, (text.DASH,) * count, differs=False, difference=text.money_difference(changed[member]))
        for name, member in SHARES
    ]


def _buckets(options: Sequence[Json | None], changed: Json | None) -> list[Line]:
    found = []
    for name, slug in BUCKET_LINES:
        sizes = [((option or {}).get("memory") or {}).get("by_bucket", {}).get(slug) for option in options]
        if any(sizes):
            said = [text.memory(size, 2) if size is not None else "" for size in sizes]
            found.append(_line(name, said, _said(text.memory_difference, changed, slug)))
    return found


def _short(value: Any) -> str:
    """A value of a request, as short as a cell."""
    return text.DASH if value is None else str(value)[:60]


def _line(name: str, values: Sequence[str], difference: str = "") -> Line:
    return Line(name, tuple(value or text.DASH for value in values), len(set(values)) > 1, difference)
