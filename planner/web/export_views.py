"""Launch files of an option: one tab a format, the file to read, copy or download."""

from __future__ import annotations

import json
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from planner.errors import InvalidRequest, NotFound
from planner.export import FORMATS, NotExportable
from planner.plans.exports import plan_export
from planner.plans.models import PlanRun
from planner.plans.selectors import plan_of
from planner.teams.selectors import READ, Actor
from planner.web import choices
from planner.web.context import Reader, option_page
from planner.web.door import door, show
from planner.web.downloads import KINDS, as_file
from planner.web.estimates import answer_of
from planner.web.figures import FIGURES, TABLES, csv_of, svg_of


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


@require_safe
@door(READ)
def plan_figure(request: HttpRequest, actor: Actor, plan_id: UUID, rank: int, name: str, kind: str) -> HttpResponse:
    """A figure of an option as CSV or as SVG."""
    run = plan_of(actor.team, plan_id)
    answer = json.loads(run.answer) if run.answer else {}
    best = answer.get("recommendation") or {}
    rows = (best, *(answer.get("options") or ()))
    option = next((row for row in rows if row.get("rank") == rank), None)
    if option is None or name not in FIGURES or kind not in KINDS:
        raise NotFound("This plan has no such figure.")
    explained = option.get("answer") or answer_of(option["estimate"], actor.team)
    file = f"plan-{str(run.pk)[:8]}-{rank}-{name}.{kind}"
    if kind == "csv":
        return as_file(csv_of(TABLES[name](answer, option, explained)), file, KINDS[kind])
    reader = Reader(choices.accelerator_names(), lambda rank: "")
    drawing = svg_of(name, option_page(json.loads(run.request), answer, reader, option, explained))
    if drawing is None:
        raise NotFound("This plan has no such figure.")
    return as_file(drawing, file, KINDS[kind])
