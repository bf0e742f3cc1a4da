"""Requests with one thing changed: what a card of the plan page leads to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from planner.requests.plan_tables import HARDWARE, PLAN
from planner.web.form_more import leftover, merged
from planner.web.words import Json


def _twice(was: Json, name: str) -> dict[str, Any]:
    return {"batch": {name: (was["batch"].get(name) or 1) * 2}}


CHANGED: Mapping[str, Callable[[Json], dict[str, Any]]] = {
    "Fused loss": lambda was: {"options": {"loss": "fused"}},
    "AdamW 8-bit": lambda was: {"optimizer": "adamw-8bit"},
    "Full recompute": lambda was: {"recompute": "full"},
    "No recompute": lambda was: {"recompute": "none"},
    "Micro-batch \u00d7 2": lambda was: _twice(was, "micro_batch_size"),
    "Sequence \u00d7 2": lambda was: _twice(was, "sequence_length"),
}
"""The changes of the search that an estimate request can say; slower links and other prices it cannot."""


def changed_estimate(row: Json, base: Json) -> Json | None:
    """The estimate request of a what-if row; None where no request says that change."""
    if row.get("estimate"):
        return row["estimate"]  # type: ignore[no-any-return]  # a JSON object of the answer
    edit = CHANGED.get(str(row.get("change")))
    if edit is None or not base.get("batch"):
        return None
    changed: Json = merged(base, edit(base))
    return changed


def plannable(row: Json) -> bool:
    """Whether a plan request can say what a change needs."""
    return "adapter" in PLAN.members or not (row.get("estimate") or {}).get("adapter")


def plan_with(request: Json, row: Json) -> dict[str, Any]:
    """The plan request widened by what one change needs, so that planning again finds it."""
    if not plannable(row):
        return dict(request)
    wanted, change = row.get("estimate") or {}, str(row.get("change"))
    hardware = dict(request.get("hardware") or {})
    machine = wanted.get("hardware") or {}
    most = hardware.get("max_count") or HARDWARE.members["max_count"].default
    hardware["max_count"] = max(int(str(most)), int(machine.get("count") or 1))
    if hardware.get("accelerators") and machine.get("accelerator") not in hardware["accelerators"]:
        hardware["accelerators"] = [*hardware["accelerators"], machine["accelerator"]]
    changed = {**request, "hardware": hardware, "search": _search(request, wanted)}
    for axis, member in (("optimizers", "optimizer"), ("precisions", "precision")):
        if wanted.get(member) is not None:
            changed[axis] = _with(request.get(axis), wanted[member])
    engine = (wanted.get("sharding") or {}).get("engine")
    if request.get("engines") and engine:
        changed["engines"] = _with(request["engines"], engine)
    if wanted.get("adapter"):
        changed["adapter"] = wanted["adapter"]
    return changed | _limits(request, row, change)


def _search(request: Json, wanted: Json) -> dict[str, Any]:
    search = dict(request.get("search") or {})
    stage = (wanted.get("sharding") or {}).get("zero_stage")
    if search.get("zero_stages") and stage is not None:
        search["zero_stages"] = _with(search["zero_stages"], stage)
    if search.get("recompute") and wanted.get("recompute") is not None:
        search["recompute"] = _with(search["recompute"], wanted["recompute"])
    moved = leftover({"offload": wanted.get("offload") or {}}, {}).get("offload")
    if moved:
        search["offload"] = _with(search.get("offload") or ["none"], moved)
    return search


def _with(values: Any, value: Any) -> list[Any]:
    held = list(values or ())
    return held if value in held else [*held, value]


def _limits(request: Json, row: Json, change: str) -> dict[str, Any]:
    """A limit moved to where the nearest miss meets it; a batch left to the search."""
    constraints = dict(request.get("constraints") or {})
    if change.startswith("a deadline of ") and row.get("hours"):
        constraints["deadline_hours"] = round(float(row["hours"]) + 0.05, 1)
    if change.startswith("a budget of ") and row.get("usd"):
        constraints["budget_usd"] = round(float(row["usd"]) + 0.005, 2)
    if change.startswith("at least ") and row.get("tokens_per_second"):
        constraints["min_tokens_per_second"] = math.floor(float(row["tokens_per_second"]))
    found: dict[str, Any] = {"constraints": constraints} if constraints else {}
    if change == "any global batch":
        found["workload"] = {**(request.get("workload") or {}), "global_batch_tokens": None}
    return found
