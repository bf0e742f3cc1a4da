"""Pools, members and tokens of a team, and which team a person acts for."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from planner.errors import InvalidRequest, NotFound, PlannerError
from planner.ops.versions import IfMatch, entity_tag
from planner.pools import services
from planner.pools.models import Pool
from planner.pools.selectors import pool_of, pool_rows
from planner.teams.models import Membership, Role, Scope
from planner.teams.selectors import ADMINISTER, PLAN, READ, Actor
from planner.teams.services import member_delete, member_put
from planner.teams.tokens import token_issue, token_revoke, tokens_seen
from planner.web import choices
from planner.web import format as text
from planner.web.door import TEAM_KEY, door, show
from planner.web.form import bind, fields_from
from planner.web.form_rows import POOL_ROWS
from planner.web.home import spending_of_teams
from planner.web.tables import Cell, Column, Row, number, table

POOL_COLUMNS = (
    Column("name", "Pool"),
    Column("gpu", "GPU"),
    Column("node", "Node type"),
    Column("count", "GPUs", right=True),
    Column("price", "USD", "per GPU-hour", right=True),
    Column("changed", "Changed", right=True),
)


def _pool_row(pool: Pool, names: dict[str, str]) -> Row:
    return {
        "name": Cell(str(pool), small=pool.slug, href=f"{pool.slug}/"),
        "gpu": Cell(names.get(pool.accelerator, pool.accelerator)),
        "node": Cell(pool.node_type),
        "count": Cell(text.count(pool.count), pool.count),
        "price": number(pool.usd_per_device_hour, text.money_fine(pool.usd_per_device_hour)),
        "changed": Cell(text.day(pool.changed_at.date()), pool.changed_at.isoformat()),
    }


@require_safe
@door(READ)
def pools(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The team's own devices."""
    rows = list(pool_rows(actor.team))
    names = choices.accelerator_names()
    shown = table("pools", POOL_COLUMNS, [_pool_row(pool, names) for pool in rows], request.GET, f"{len(rows)} pools.")
    context = {"table": shown, "may_plan": PLAN in actor.allowed}
    return show(request, actor, "pools.html", context, place="Hardware")


@require_http_methods(["GET", "HEAD", "POST"])
@door(PLAN)
def pool_new(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Describe devices the team has."""
    lists = choices.pool_choices()
    if request.method != "POST":
        return show(request, actor, "pool.html", {"form": bind(None, POOL_ROWS, lists)}, place="Hardware")
    payload = fields_from(request.POST, POOL_ROWS, {}, [])
    try:
        services.pool_create(team=actor.team, user=actor.user, payload=payload)
    except InvalidRequest as error:
        form = bind(request.POST, POOL_ROWS, lists, error.faults)
        return show(request, actor, "pool.html", {"form": form}, place="Hardware", status=422)
    return redirect("web:pools")


@require_http_methods(["GET", "HEAD", "POST"])
@door(PLAN)
def pool(request: HttpRequest, actor: Actor, slug: str) -> HttpResponse:
    """Change one pool, or delete it."""
    row = pool_of(actor.team, slug)
    match = IfMatch(request.POST.get("version") or entity_tag(row))
    lists, fields = choices.pool_choices(), POOL_ROWS[1:]
    context: dict[str, Any] = {"pool": row, "version": entity_tag(row)}
    if request.method != "POST":
        start = {name.name: _typed(getattr(row, name.name)) for name in fields}
        context["form"] = bind(None, fields, lists, start=start)
        return show(request, actor, "pool.html", context, place="Hardware")
    if request.POST.get("delete"):
        services.pool_delete(team=actor.team, user=actor.user, slug=slug, match=match)
        return redirect("web:pools")
    payload = {"usd_per_device_hour": None, **fields_from(request.POST, fields, {}, [])}
    try:
        services.pool_update(team=actor.team, user=actor.user, slug=slug, payload=payload, match=match)
    except InvalidRequest as error:
        context["form"] = bind(request.POST, fields, lists, error.faults)
        return show(request, actor, "pool.html", context, place="Hardware", status=422)
    return redirect("web:pools")


def _typed(value: object) -> str:
    return "" if value is None else str(value)


@require_safe
@door(READ)
def team(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Members, tokens and planned spending."""
    return show(request, actor, "team.html", _team_context(actor), place="Team")


def _team_context(actor: Actor) -> dict[str, Any]:
    members = Membership.objects.select_related("user").filter(team=actor.team).order_by("user__username")
    mine = Membership.objects.select_related("team").filter(user=actor.user).order_by("team__name")
    return {
        "members": members,
        "teams": [membership.team for membership in mine],
        "tokens": tokens_seen(actor).order_by("-created"),
        "roles": Role.choices,
        "scopes": Scope.choices,
        "administers": ADMINISTER in actor.allowed,
        "spending": spending_of_teams(actor.user, timezone.now()),
    }


@require_POST
@door(READ)
def token_new(request: HttpRequest, actor: Actor) -> HttpResponse:
    """A new token: its text is on the answer's page and nowhere else."""
    payload = {"name": request.POST.get("name", "").strip(), "scope": request.POST.get("scope", Scope.READ)}
    try:
        token, secret = token_issue(actor=actor, payload=payload)
    except PlannerError as error:
        said = [fault.detail for fault in error.faults] or [error.detail]
        context = _team_context(actor) | {"token_faults": said, "token_name": payload["name"]}
        return show(request, actor, "team.html", context, place="Team", status=error.http_status)
    context = _team_context(actor) | {"made": token, "secret": secret}
    answer = show(request, actor, "team.html", context, place="Team", status=201)
    answer["Cache-Control"] = "no-store"
    return answer


@require_POST
@door(READ)
def token_end(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Revoke a token: requests with it are refused from now on."""
    try:
        wanted = UUID(request.POST.get("token", ""))
    except ValueError:
        raise NotFound("there is no such token") from None
    token_revoke(actor=actor, public_id=wanted)
    return redirect("web:team")


@require_POST
@door(ADMINISTER)
def member_set(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Add a person, change their role, or take them out."""
    name = request.POST.get("username", "").strip()
    try:
        if request.POST.get("remove"):
            member_delete(team=actor.team, user=actor.user, username=name)
        elif request.POST.get("role") in Role.values:
            member_put(team=actor.team, user=actor.user, username=name, role=request.POST["role"])
    except PlannerError as error:
        context = _team_context(actor) | {"member_fault": error.detail, "member_name": name}
        return show(request, actor, "team.html", context, place="Team", status=error.http_status)
    return redirect("web:team")


@require_POST
@door(READ)
def team_switch(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Act for another team of one's own from now on."""
    slug = request.POST.get("team", "")
    if not Membership.objects.filter(user=actor.user, team__slug=slug).exists():
        raise NotFound("you are in no such team")
    request.session[TEAM_KEY] = slug
    return redirect("web:plans")
