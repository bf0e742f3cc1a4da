"""The compare page: options of one plan, or of several plans of the team."""

from __future__ import annotations

import json
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from planner.errors import NotFound
from planner.plans.models import PlanRun
from planner.plans.selectors import plan_of, plans_of
from planner.teams.selectors import READ, Actor
from planner.web import choices, words
from planner.web.compare import MOST, Side, compare
from planner.web.door import door, show

_FEW_DIGITS = 5


@require_safe
@door(READ)
def compare_page(request: HttpRequest, actor: Actor) -> HttpResponse:
    """`?with=<plan>.<rank>` names a side, up to four of them; the older plan first, so that changes read as such."""
    sides = [side for asked in request.GET.getlist("with")[:MOST] if (side := _side(actor, asked)) is not None]
    sides.sort(key=lambda side: side.made)
    names = choices.accelerator_names()
    recent = [
        (f"{run.pk}.1", words.plan_title(json.loads(run.request)), str(run.pk)[:8])
        for run in plans_of(actor.team).exclude(answer="").defer("answer")[:20]
    ]
    context = {"sides": sides, "lines": compare(sides, names) if len(sides) > 1 else (), "recent": recent}
    return show(request, actor, "compare.html", context)


def _side(actor: Actor, asked: str) -> Side | None:
    """One side; None where it has no recommendation to compare. Raises NotFound for another team's."""
    plan, _, rank = asked.partition(".")
    try:
        run = plan_of(actor.team, UUID(plan))
    except ValueError:
        raise NotFound(f"{asked[:60]!r} is no plan and option.") from None
    wanted = int(rank) if rank.isdecimal() and len(rank) < _FEW_DIGITS else 1
    return _of(run, wanted)


def _of(run: PlanRun, rank: int) -> Side | None:
    answer = json.loads(run.answer) if run.answer else {}
    option = next((row for row in answer.get("options") or () if row.get("rank") == rank), None)
    if option is None:
        return None
    href = reverse("web:plan", args=[run.pk]) if rank == 1 else reverse("web:plan-option", args=[run.pk, rank])
    name, known = f"Plan {str(run.pk)[:8]}, option {rank}", answer.get("provenance") or {}
    return Side(name, href, option, json.loads(run.request), known, run.created_at)
