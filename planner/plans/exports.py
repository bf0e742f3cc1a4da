"""Launch files of a finished plan's options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from accounting.estimate import ENGINE_VERSION
from planner.errors import NotFound
from planner.export import Stamp, possible, render
from planner.export.base import File
from planner.plans.models import PlanRun
from planner.requests import RequestContext, context_for


def plan_export(*, run: PlanRun, rank: int, key: str) -> File:
    """One option as a launch file. Raises NotFound, and NotExportable where the format cannot say what was decided."""
    answer = json.loads(run.answer) if run.answer else {}
    option = next((row for row in answer.get("options", ()) if row["rank"] == rank), None)
    if option is None:
        raise NotFound("this plan has no option of that rank")
    stamp = Stamp(plan=str(run.pk), rank=rank, engine_version=run.engine_version)
    return render(key, option, stamp, context_for(run.team), (answer.get("provenance") or {}).get("tokens"))


def link_exports(found: dict[str, Any], run: PlanRun, context: RequestContext) -> None:
    """Give every option of a fresh answer the addresses of its launch files."""
    for option in found["options"]:
        option["exports"] = export_links(option, run, context, found["provenance"]["tokens"])
    if found["options"]:
        found["recommendation"]["exports"] = found["options"][0]["exports"]


def export_links(
    option: Mapping[str, Any], run: PlanRun, context: RequestContext, tokens: int | None
) -> dict[str, str]:
    """Format → address, relative to the plan's own: the same request gives the same bytes whatever its id is."""
    stamp = Stamp(plan=str(run.pk), rank=option["rank"], engine_version=ENGINE_VERSION)
    keys = possible(option, stamp, context, tokens)
    return {key: f"options/{option['rank']}/exports/{key}/" for key in keys}
