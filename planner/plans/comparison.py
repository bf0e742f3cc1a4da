"""Plans side by side: what was asked differently, and what came out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.documents import pointer_to
from planner.plans.documents import plan_summary
from planner.plans.models import PlanRun

COMPARED = ("hours", "usd", "usd_per_hour", "step_seconds", "device_bytes", "headroom_bytes")
HARDWARE = ("accelerator", "count", "node_type")


def comparison(runs: Sequence[PlanRun]) -> dict[str, Any]:
    """The contract's comparison: one value for each plan, in the order asked for; null where a plan has none."""
    requests = [dict(_leaves("", json.loads(run.request))) for run in runs]
    pointers = sorted({pointer for request in requests for pointer in request})
    asked = {pointer: [request.get(pointer) for request in requests] for pointer in pointers}
    found = [_recommendation(run) for run in runs]
    return {
        "plans": [plan_summary(run) for run in runs],
        "request": {pointer: values for pointer, values in asked.items() if _differ(values)},
        "recommendation": {name: [row.get(name) for row in found] for name in (*HARDWARE, *COMPARED)},
    }


def _differ(values: Sequence[Any]) -> bool:
    return any(value != values[0] for value in values)


def _recommendation(run: PlanRun) -> Mapping[str, Any]:
    option = json.loads(run.answer).get("recommendation") if run.answer else None
    if not option:
        return {}
    hardware = option.get("estimate", {}).get("hardware", {})
    return {name: hardware.get(name) for name in HARDWARE} | {name: option.get(name) for name in COMPARED}


def _leaves(pointer: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Pointer and value of everything that is not an object; a list is one value, for its order means something."""
    if not isinstance(value, dict) or not value:
        yield pointer, value
        return
    for name, inner in value.items():
        yield from _leaves(pointer_to(pointer, name), inner)
