"""The explain pages: a panel beside the ledger where htmx asks, a whole page without script."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_safe

from planner.errors import InvalidRequest, NotFound
from planner.plans.models import PlanRun
from planner.plans.selectors import plan_of
from planner.requests import context_for, read_estimate
from planner.teams.models import Team
from planner.teams.selectors import READ, Actor
from planner.web import words
from planner.web.door import door, is_live, show
from planner.web.estimates import answer_of, filled
from planner.web.explain import explain, subjects
from planner.web.explanation import Asked, Explanation
from planner.web.form import payload_from
from planner.web.form_rows import ESTIMATE_ROWS
from planner.web.ledger import read_ledger
from planner.web.words import Json

CLOSEST = 0
"""In the place of a rank: the closest candidate of a plan without options."""


def explain_base(run: PlanRun, rank: int) -> str:
    """The address before a subject's name."""
    return reverse("web:explain", args=[run.pk, rank, "x"]).removesuffix("x/")


@require_safe
@door(READ)
def plan_explain(request: HttpRequest, actor: Actor, plan_id: UUID, rank: int, subject: str) -> HttpResponse:
    """One number of one option."""
    run = plan_of(actor.team, plan_id)
    option, answer = _of_plan(run, rank, actor.team)
    asked = _asked(option["estimate"], answer, actor.team, f"option {rank}" if rank else "the closest candidate")
    tokens = (json.loads(run.request).get("workload") or {}).get("tokens")
    asked = replace(asked, option=option, tokens=tokens)
    base = explain_base(run, rank)
    crumbs = {"run": run, "short_id": str(run.pk)[:8], "rank": rank, "title": words.plan_title(json.loads(run.request))}
    back = reverse("web:plan-option", args=[run.pk, rank]) if rank > 1 else reverse("web:plan", args=[run.pk])
    return _page(request, actor, _found(subject, asked), asked, crumbs | {"explain_base": base, "back": back})


@require_safe
@door(READ)
def calculator_explain(request: HttpRequest, actor: Actor, subject: str) -> HttpResponse:
    """One number of the calculator's answer; the configuration is in the address."""
    posted: QueryDict = request.GET
    payload, unread = payload_from(filled(posted), ESTIMATE_ROWS)
    if unread:
        raise InvalidRequest(unread)
    asked = _asked(payload, answer_of(payload, actor.team), actor.team, "the form")
    query = f"?{posted.urlencode()}"
    frame = {
        "title": "Calculator",
        "back": reverse("web:calculator") + query,
        "explain_base": reverse("web:calculator-explain", args=["x"]).removesuffix("x/"),
        "explain_query": query,
    }
    return _page(request, actor, _found(subject, asked), asked, frame, place="Calculator")


def _page(
    request: HttpRequest, actor: Actor, found: Explanation, asked: Asked, frame: dict[str, Any], *, place: str = "Plans"
) -> HttpResponse:
    context = frame | {"found": found, "ledger": read_ledger(asked.answer["memory"]), "picked": found.subject}
    template = "parts/_explain.html" if is_live(request) else "explain.html"
    return show(request, actor, template, context, place=place)


def _found(subject: str, asked: Asked) -> Explanation:
    found = explain(subject, asked) if subject in subjects() else None
    if found is None:
        raise NotFound(f"There is no number of the name {subject!r} here.")
    return found


def _asked(request: Json, answer: Json, team: Team, asked_by: str) -> Asked:
    context = context_for(team)

    def ask(changed: Any) -> Json | None:
        try:
            return answer_of(changed, team)
        except InvalidRequest:
            return None

    return Asked(request, answer, read_estimate(request, context), asked_by, ask)


def _of_plan(run: PlanRun, rank: int, team: Team) -> tuple[Json, Json]:
    """An option and its whole estimate answer: the plan's own where it kept it, else computed again."""
    answer = json.loads(run.answer) if run.answer else {}
    if rank == CLOSEST:
        rows = [miss for miss in answer.get("nearest_misses") or () if miss.get("answer")][:1]
    else:
        best = answer.get("recommendation") or {}
        rows = [row for row in (best, *(answer.get("options") or ())) if row.get("rank") == rank][:1]
    if not rows:
        raise NotFound(f"This plan has no option {rank}.")
    return rows[0], rows[0].get("answer") or answer_of(rows[0]["estimate"], team)
