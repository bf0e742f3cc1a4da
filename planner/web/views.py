"""The pages. Each view asks a selector or a service, builds plain data and shows it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_http_methods, require_POST, require_safe

from planner.errors import InvalidRequest, NotFound
from planner.plans import services
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.selectors import plan_of, plans_of
from planner.requests import context_for, read_plan
from planner.specs.selectors import visible_models
from planner.teams.selectors import PLAN, READ, Actor
from planner.validation.kinds import KINDS
from planner.web import choices, words
from planner.web import theme as themes
from planner.web.changed import plan_with
from planner.web.charts.ranges import ranges
from planner.web.context import PlanPage, Reader, option_page, plan_page
from planner.web.door import door, is_live, show
from planner.web.downloads import table_csv
from planner.web.estimates import answer_of, calculator_page, copies, together
from planner.web.explain_views import CLOSEST, explain_base
from planner.web.form import Form, bind, payload_from, start_from
from planner.web.form_rows import PLAN_ROWS
from planner.web.home import DAYS, accuracy, spending_of_teams
from planner.web.listing import plan_rows
from planner.web.model_reading import Reading, read_pasted
from planner.web.preferences import set_letter_keys, with_kept_columns
from planner.web.presets import PRESETS, preset_start
from planner.web.waiting import Waiting, newer_revision, waiting_of

PER_PAGE = 25
NEEDS_MORE = ("import", "convergence")
"""Kinds of measurement that ask for more than an option."""
_FEW_DIGITS = 4
STOP_POLLING = 286
"""htmx's status for "this was the last poll"."""


@require_safe
@door(READ)
def plans(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The team's plans, newest first."""
    status = request.GET.get("status", "")
    found = plans_of(actor.team).order_by("-created_at", "-id")
    if status in PlanStatus.values:
        found = found.filter(status=status)
    page = Paginator(found, PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "rows": plan_rows(list(page.object_list), choices.accelerator_names()),
        "page": page,
        "status": status,
        "statuses": [(value, words.STATUS_WORDS[value][2]) for value in PlanStatus.values],
        "any": page.paginator.count > 0 or plans_of(actor.team).exists(),
        "may_plan": PLAN in actor.allowed,
        "spending": spending_of_teams(actor.user, timezone.now()),
        "days": DAYS,
        "accuracy": ranges(accuracy()),
        "presets": PRESETS,
        "models": tuple(visible_models(actor.team)),
    }
    return show(request, actor, "plans.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@door(PLAN)
def plan_new(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The form; a right one becomes a plan, a wrong one comes back with every fault at its field."""
    lists = choices.plan_choices(actor.team)
    if request.method != "POST":
        form = bind(None, PLAN_ROWS, lists, start=_start(request, actor))
        context = {"form": form, "reading": _reading(form, actor), "presets": PRESETS}
        return show(request, actor, "new_plan.html", context)
    payload, unread = payload_from(request.POST, PLAN_ROWS)
    try:
        if unread:
            read_plan(payload, context_for(actor.team))
            raise InvalidRequest(unread)
        run, _ = services.plan_create(team=actor.team, user=actor.user, payload=payload)
    except InvalidRequest as error:
        form = bind(request.POST, PLAN_ROWS, lists, together(unread, error.faults))
        context = {"form": form, "reading": _reading(form, actor)}
        return show(request, actor, "new_plan.html", context, status=422)
    return redirect("web:plan", plan_id=run.pk)


def _start(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    """What the form starts with: an earlier plan of the team where the address names one."""
    earlier = request.GET.get("from", "")
    if not earlier:
        asked = {name: request.GET[name] for name in ("model", "tokens") if request.GET.get(name)}
        chosen = {"accelerators": (request.GET["gpu"],)} if request.GET.get("gpu") else {}
        started: dict[str, Any] = {row.name: row.start for row in PLAN_ROWS}
        return started | dict(preset_start(request.GET.get("preset", ""))) | asked | chosen
    try:
        run = plan_of(actor.team, UUID(earlier))
    except (ValueError, NotFound):
        return {}
    asked = json.loads(run.request)
    changes = (json.loads(run.answer).get("what_if") or []) if run.answer else []
    wanted = request.GET.get("change", "")
    if wanted.isdecimal() and len(wanted) < _FEW_DIGITS and int(wanted) < len(changes):
        asked = plan_with(asked, changes[int(wanted)])
    return start_from(asked, PLAN_ROWS)


@require_safe
@door(READ)
def plan(request: HttpRequest, actor: Actor, plan_id: UUID) -> HttpResponse:
    """One plan in whatever state it is."""
    return _answered(request, actor, _plan_context(request, actor, plan_of(actor.team, plan_id)))


def _answered(request: HttpRequest, actor: Actor, context: dict[str, Any]) -> HttpResponse:
    """The page, or its options as CSV where the address asks for them."""
    page: PlanPage | None = context["page"]
    if request.GET.get("format") == "csv" and page is not None and page.options is not None:
        return table_csv(page.options)
    return show(request, actor, "plan.html", context)


@require_GET
@door(READ)
def plan_progress(request: HttpRequest, actor: Actor, plan_id: UUID) -> HttpResponse:
    """What htmx polls: the progress, and at the end the whole answer in its place."""
    run = plan_of(actor.team, plan_id)
    context = _plan_context(request, actor, run)
    if not run.is_final:
        return show(request, actor, "parts/_progress.html", context)
    answer = show(request, actor, "parts/_plan.html", context, status=STOP_POLLING)
    answer["HX-Retarget"] = "#plan"
    answer["HX-Reswap"] = "outerHTML"
    return answer


@require_POST
@door(PLAN)
def plan_cancel(request: HttpRequest, actor: Actor, plan_id: UUID) -> HttpResponse:
    """Cancel a plan that waits or runs; its page then says so."""
    services.plan_cancel(plan_id=plan_id, team=actor.team, user=actor.user)
    return redirect("web:plan", plan_id=plan_id)


@require_safe
@door(READ)
def plan_option(request: HttpRequest, actor: Actor, plan_id: UUID, rank: int) -> HttpResponse:
    """The plan page for another option."""
    run = plan_of(actor.team, plan_id)
    answer = json.loads(run.answer) if run.answer else {}
    option = next((row for row in answer.get("options") or () if row["rank"] == rank), None)
    if option is None:
        raise NotFound(f"This plan has no option {rank}.")
    reader = _reader(request, actor, run)
    explained = answer_of(option["estimate"], actor.team)
    page = option_page(json.loads(run.request), answer, reader, option, explained)
    return _answered(request, actor, _frame_of(request, actor, run, page))


def _plan_context(request: HttpRequest, actor: Actor, run: PlanRun) -> dict[str, Any]:
    page = None
    if run.answer:
        page = plan_page(json.loads(run.request), json.loads(run.answer), _reader(request, actor, run))
    return _frame_of(request, actor, run, page)


def _frame_of(request: HttpRequest, actor: Actor, run: PlanRun, page: PlanPage | None) -> dict[str, Any]:
    asked = json.loads(run.request)
    waiting: Waiting = waiting_of(run)
    return {
        "run": run,
        "short_id": str(run.pk)[:8],
        "title": words.plan_title(asked),
        "page": page,
        "waiting": waiting,
        "copy": copies(asked, request.build_absolute_uri("/")),
        "may_plan": PLAN in actor.allowed,
        "older_than": newer_revision(run),
        "kinds": [kind for kind in KINDS.values() if kind.name not in NEEDS_MORE],
        "explain_base": explain_base(run, (page.rank or CLOSEST) if page else CLOSEST),
    }


def _reader(request: HttpRequest, actor: Actor, run: PlanRun) -> Reader:
    def link(rank: int) -> str:
        if rank == 1:
            return reverse("web:plan", args=[run.pk])
        return reverse("web:plan-option", args=[run.pk, rank])

    def explained(rank: int, subject: str) -> str:
        return reverse("web:explain", args=[run.pk, rank, subject])

    asked = with_kept_columns(request, actor.user, "options")
    return Reader(choices.accelerator_names(), link, explained, asked, choices.node_sizes())


@require_safe
@door(READ)
def calculator(request: HttpRequest, actor: Actor) -> HttpResponse:
    """What one exact configuration needs; the form is in the address, so an answer can be sent."""
    root = request.build_absolute_uri("/")
    live = is_live(request)
    lists, names = {} if live else choices.estimate_choices(actor.team), choices.accelerator_names()
    page = calculator_page(request.GET, actor.team, lists, names, root)
    status = 422 if page.form.summary else 200
    context = {
        "page": page,
        "form": page.form,
        "explain_base": reverse("web:calculator-explain", args=["x"]).removesuffix("x/"),
        "explain_query": f"?{request.GET.urlencode()}",
    }
    if live:
        # htmx swaps only what came well: a form with faults is an answer like any other.
        return show(request, actor, "parts/_calculator_answer.html", context)
    context["reading"] = _reading(page.form, actor)
    return show(request, actor, "calculator.html", context, place="Calculator", status=status)


def _reading(form: Form, actor: Actor) -> Reading | None:
    """What a pasted file says, where one was pasted."""
    if form.kind != "config":
        return None
    return read_pasted(form.fields["config"].value, visible_models(actor.team))


@require_safe
@door(READ)
def keys(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The list of keys, and the switch for single letters."""
    return show(request, actor, "keys.html", {"keys": words.KEYS}, place="")


@require_POST
@door(READ)
def keys_set(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Single letters on or off, for the account."""
    set_letter_keys(request, actor.user, on=request.POST.get("letters") == "on")
    return redirect("web:keys")


@require_safe
def icon(request: HttpRequest) -> HttpResponse:
    """The mark, for pages without a link to it: browsers ask for /favicon.ico by themselves on the admin's."""
    return redirect(static("planner/mark.svg"))


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keep the reader's theme in a cookie and go back to where they were."""
    back = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        back = "/"
    wanted = request.POST.get("theme", "system")
    answer = redirect(back)
    if wanted in themes.THEMES:
        answer.set_cookie(themes.COOKIE, wanted, max_age=themes.SECONDS, samesite="Lax", secure=request.is_secure())
    return answer
