"""Launch files of a finished plan's options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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
    return render(key, option, stamp, context_for(run.team), answer["provenance"]["tokens"])


def export_links(
    option: Mapping[str, Any], run: PlanRun, context: RequestContext, tokens: int | None
) -> dict[str, str]:
    """Format → address, relative to the plan's own: the same request gives the same bytes whatever its id is."""
    stamp = Stamp(plan=str(run.pk), rank=option["rank"], engine_version=run.engine_version or "0")
    keys = possible(option, stamp, context, tokens)
    return {key: f"options/{option['rank']}/exports/{key}/" for key in keys}
