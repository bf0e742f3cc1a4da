"""The compare page: options of one plan, or of several plans of the team, and a plan against its own run of today."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from planner.errors import InvalidQuery, NotFound
from planner.plans.comparison import Reference, Side, reference, sides_of
from planner.plans.models import PlanStatus
from planner.plans.selectors import plans_of
from planner.plans.services import plan_rerun
from planner.teams.selectors import PLAN, READ, Actor
from planner.web import choices, words
from planner.web.compare import MOST, compare
from planner.web.door import door, show

RECENT = 20
MANY = 40
"""Names that are read at all; one that stands twice is one side."""


@dataclass(frozen=True)
class Head:
    """Title of a column: which option, where its page is, and its state where it is no option yet or never."""

    name: str
    href: str
    state: str


@require_safe
@door(READ)
def compare_page(request: HttpRequest, actor: Actor) -> HttpResponse:
    """`?with=<plan>.<rank>` names a side, up to four of them; the older plan first, so that changes read as such."""
    named = request.GET.getlist("with")
    asked = dict.fromkeys(_reference(text) for text in named[:MANY])
    if len(named) > MANY or len(asked) > MOST:
        raise InvalidQuery(f"{len(named)} are named, and {MOST} stand side by side here. Leave some out.")
    sides = sides_of(actor.team, list(asked))
    sides.sort(key=lambda side: side.run.created_at)
    recent = [
        (f"{run.pk}.1", words.plan_title(json.loads(run.request)), str(run.pk)[:8])
        for run in plans_of(actor.team).exclude(answer="").defer("answer")[:RECENT]
    ]
    context = {
        "heads": [_head(side) for side in sides],
        "lines": compare(sides, choices.accelerator_names()) if len(sides) > 1 else (),
        "waiting": any(not side.run.is_final for side in sides),
        "recent": recent,
    }
    return show(request, actor, "compare.html", context)


@require_POST
@door(PLAN)
def plan_today(request: HttpRequest, actor: Actor, plan_id: UUID) -> HttpResponse:
    """Plan a saved request anew and show it beside the saved plan."""
    run = plan_rerun(team=actor.team, user=actor.user, plan_id=plan_id)
    return redirect(f"{reverse('web:compare')}?with={plan_id}.1&with={run.pk}.1")


def _reference(text: str) -> Reference:
    try:
        return reference(text)
    except ValueError:
        raise NotFound(f"{text[:60]!r} is no plan and option.") from None


def _head(side: Side) -> Head:
    run, rank = side.run, side.rank
    href = reverse("web:plan", args=[run.pk]) if rank == 1 else reverse("web:plan-option", args=[run.pk, rank])
    state = "" if run.status == PlanStatus.SUCCEEDED else words.STATUS_WORDS[run.status][2]
    return Head(f"Plan {str(run.pk)[:8]}, option {rank}", href, state)
