"""Plans and options side by side: what was asked differently, what came out, and how much of it is the price's doing.

The API, the command line and the page all show what `comparison` says; none of them subtracts anything itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from planner.documents import pointer_to
from planner.errors import NotFound
from planner.plans.documents import plan_summary
from planner.plans.models import PlanRun
from planner.plans.selectors import plans_by_ids
from planner.teams.models import Team

Json = Mapping[str, Any]
COMPARED = ("hours", "usd", "usd_per_hour", "step_seconds", "device_bytes", "headroom_bytes")
HARDWARE = ("accelerator", "count", "node_type")
SHOWN = ("hours_band", "usd_band", "memory", "time", "offer", "estimate")
BUILT = ("engine_version", "calibration", "catalog_revision", "price_dates")
"""What of a plan's provenance may change between two runs of one request."""
RANK_DIGITS = 4
MAX_COMPARED = 10
"""Plans or options in one document."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Which option of which plan; the best where no rank is named."""

    plan: UUID
    rank: int = 1


@dataclass(frozen=True, slots=True)
class Side:
    """One option to be compared. `option` is None where its plan has no answer yet, or nothing feasible."""

    run: PlanRun
    rank: int
    option: Json | None
    request: Json
    provenance: Json


def reference(text: str) -> Reference:
    """`PLAN` or `PLAN.RANK`. Raises ValueError where it is neither."""
    plan, dot, rank = text.strip().partition(".")
    if not dot:
        return Reference(UUID(plan))
    if not (rank.isascii() and rank.isdecimal() and len(rank) <= RANK_DIGITS and int(rank)):
        raise ValueError(text)
    return Reference(UUID(plan), int(rank))


def sides_of(team: Team, references: Sequence[Reference]) -> list[Side]:
    """In the order asked for. Raises NotFound where a plan is missing or another team's, or has no such option."""
    runs = plans_by_ids(team, [asked.plan for asked in references])
    return [_side(run, asked.rank) for run, asked in zip(runs, references, strict=True)]


def _side(run: PlanRun, rank: int) -> Side:
    answer = json.loads(run.answer) if run.answer else {}
    option = answer.get("recommendation") if rank == 1 else None
    if rank > 1:
        option = next((row for row in answer.get("options") or () if row.get("rank") == rank), None)
        if answer and option is None:
            raise NotFound(f"plan {run.pk} has no option {rank}")
    return Side(run, rank, option, json.loads(run.request), answer.get("provenance") or {})


def comparison(sides: Sequence[Side]) -> dict[str, Any]:
    """One value for each side, in the order asked for; null where a side has none.

    `differences` holds each side less the first: null for the first, and where either has no option.
    """
    requests = [dict(_leaves("", side.request)) for side in sides]
    pointers = sorted({pointer for request in requests for pointer in request})
    asked = {pointer: [request.get(pointer) for request in requests] for pointer in pointers}
    found = [_numbers(side.option) for side in sides]
    return {
        "plans": [plan_summary(side.run) for side in sides],
        "request": {pointer: values for pointer, values in asked.items() if _differ(values)},
        "recommendation": {name: [row.get(name) for row in found] for name in (*HARDWARE, *COMPARED)},
        "options": [_shown(side) for side in sides],
        "made_with": {name: [side.provenance.get(name) for side in sides] for name in BUILT},
        "differences": [None, *(difference(sides[0].option, side.option) for side in sides[1:])],
    }


def difference(first: Json | None, other: Json | None) -> dict[str, Any] | None:
    """The second option less the first; None where either is missing, null for a number that either lacks.

    `usd_by_price` is what the first option's hours cost more at the second's dollars an hour, `usd_by_hours` the rest:
    other hours, at the second's price. The two add up to `usd` where the job has a length.
    """
    if not first or not other:
        return None
    found: dict[str, Any] = {name: _less(other.get(name), first.get(name)) for name in COMPARED}
    buckets = [(option.get("memory") or {}).get("by_bucket") or {} for option in (first, other)]
    found["by_bucket"] = {name: _less(buckets[1].get(name), buckets[0][name]) for name in buckets[0]}
    hours, rate = first.get("hours"), found["usd_per_hour"]
    by_price = None if hours is None or rate is None or found["usd"] is None else hours * rate
    found["usd_by_price"] = by_price
    found["usd_by_hours"] = None if by_price is None else found["usd"] - by_price
    found["same_configuration"] = first.get("estimate") == other.get("estimate")
    return found


def _less(other: float | None, first: float | None) -> float | None:
    return None if other is None or first is None else other - first


def _differ(values: Sequence[Any]) -> bool:
    return any(value != values[0] for value in values)


def _numbers(option: Json | None) -> Json:
    if not option:
        return {}
    hardware = option.get("estimate", {}).get("hardware", {})
    return {name: hardware.get(name) for name in HARDWARE} | {name: option.get(name) for name in COMPARED}


def _shown(side: Side) -> dict[str, Any] | None:
    """The option itself, with its likely ranges, its price and the request that reproduces it."""
    if not side.option:
        return None
    return {"plan": str(side.run.pk), "rank": side.rank} | {name: side.option.get(name) for name in (*COMPARED, *SHOWN)}


def _leaves(pointer: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Pointer and value of everything that is not an object; a list is one value, for its order means something."""
    if not isinstance(value, dict) or not value:
        yield pointer, value
        return
    for name, inner in value.items():
        yield from _leaves(pointer_to(pointer, name), inner)
