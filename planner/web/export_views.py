"""Launch files of an option: one tab a format, the file to read, copy or download."""

from __future__ import annotations

import json
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from planner.errors import InvalidRequest
from planner.export import FORMATS, NotExportable
from planner.plans.exports import plan_export
from planner.plans.models import PlanRun
from planner.plans.selectors import plan_of
from planner.teams.selectors import READ, Actor
from planner.web.door import door, show
from planner.web.downloads import as_file


def _first(run: PlanRun, rank: int) -> str:
    """The first format that can say what the option decided."""
    answer = json.loads(run.answer) if run.answer else {}
    links = next((row.get("exports") for row in answer.get("options") or () if row["rank"] == rank), None)
    return str(next(iter(links or FORMATS)))


@require_safe
@door(READ)
def plan_exports(request: HttpRequest, actor: Actor, plan_id: UUID, rank: int, key: str = "") -> HttpResponse:
    """The file of one format; where a format cannot say what the option decided, its tab says why."""
    run = plan_of(actor.team, plan_id)
    chosen = key or _first(run, rank)
    context = {
        "run": run,
        "rank": rank,
        "short_id": str(run.pk)[:8],
        "tabs": [(name, name == chosen) for name in FORMATS],
        "back": reverse("web:plan-option", args=[run.pk, rank]) if rank > 1 else reverse("web:plan", args=[run.pk]),
        "key": chosen,
    }
    try:
        file = plan_export(run=run, rank=rank, key=chosen)
    except (NotExportable, InvalidRequest) as error:
        said = [fault.detail for fault in error.faults] or [error.detail]
        return show(request, actor, "exports.html", context | {"refused": said})
    if request.GET.get("download"):
        return as_file(file.text, file.name, file.media_type)
    return show(request, actor, "exports.html", context | {"file": file})
