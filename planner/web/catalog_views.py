"""The pages of the catalog: hardware, nodes, models, optimizers."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from accounting.facts.optimizers import OPTIMIZERS
from hardware.choices import Vendor
from hardware.models import Accelerator, NodeType
from hardware.revision import current_revision
from planner.errors import InvalidRequest, NotFound
from planner.specs.selectors import visible_models
from planner.specs.services import model_spec_import
from planner.teams.selectors import EDIT_CATALOG, PLAN, READ, Actor
from planner.web import hardware, model_pages, optimizer_pages
from planner.web.door import door, show
from planner.web.downloads import KINDS, as_file, table_csv
from planner.web.facts import origins_of
from planner.web.figures import csv_of, drawing_of, price_rows
from planner.web.model_reading import read_pasted
from planner.web.preferences import with_kept_columns


def _listed(request: HttpRequest, actor: Actor, template: str, context: dict[str, Any], place: str) -> HttpResponse:
    """A list as a page, or as CSV where the address asks for it."""
    if request.GET.get("format") == "csv":
        return table_csv(context["table"])
    return show(request, actor, template, context, place=place)


@require_safe
@door(READ)
def devices(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Every device with its prices."""
    page = hardware.hardware_page(with_kept_columns(request, actor.user, "hardware"), timezone.localdate())
    steps = [(str(size), f"{size} GB") for size in hardware.MEMORY_STEPS]
    context = {"page": page, "table": page.table, "steps": steps, "vendors": Vendor.choices}
    return _listed(request, actor, "hardware.html", context, "Hardware")


@require_safe
@door(READ)
def device(request: HttpRequest, actor: Actor, slug: str) -> HttpResponse:
    """One device."""
    row = Accelerator.objects.filter(slug=slug).first()
    if row is None:
        raise NotFound(f"There is no device {slug!r} in the catalog.")
    may = _may(actor)
    page = hardware.device_page(row, request.GET, timezone.localdate(), may_edit=may["may_edit"])
    if request.GET.get("format") == "csv":
        return table_csv(page.offers)
    context = {"page": page, "row": row, "revision": current_revision(), **may}
    return show(request, actor, "device.html", context, place="Hardware")


@require_safe
@door(READ)
def device_prices(request: HttpRequest, actor: Actor, slug: str, kind: str) -> HttpResponse:
    """The price history of a device as CSV or as SVG."""
    row = Accelerator.objects.filter(slug=slug).first()
    history = None if row is None else hardware.history_of(row, timezone.localdate())
    if history is None or kind not in KINDS:
        raise NotFound(f"There is no price history of {slug!r}.")
    if kind == "csv":
        return as_file(csv_of(price_rows(history)), f"prices-{slug}.csv", KINDS[kind])
    drawn = drawing_of("_price_history.html", {"chart": history, "id": "prices"})
    return as_file(drawn, f"prices-{slug}.svg", KINDS[kind])


@require_safe
@door(READ)
def nodes(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Every node type."""
    context = {
        "table": hardware.nodes_page(with_kept_columns(request, actor.user, "nodes")),
        "find": request.GET.get("find", ""),
    }
    return _listed(request, actor, "nodes.html", context, "Hardware")


@require_safe
@door(READ)
def node(request: HttpRequest, actor: Actor, slug: str) -> HttpResponse:
    """One node type."""
    rows = NodeType.objects.select_related("accelerator", "intra_interconnect", "inter_interconnect")
    row = rows.filter(slug=slug).first()
    if row is None:
        raise NotFound(f"There is no node type {slug!r} in the catalog.")
    context = {
        "row": row,
        "facts": hardware.node_facts(row),
        "links": hardware.links_of(row),
        "origins": origins_of(row),
        "revision": current_revision(),
        **_may(actor),
    }
    return show(request, actor, "node.html", context, place="Hardware")


@require_safe
@door(READ)
def links(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Every kind of link."""
    asked = with_kept_columns(request, actor.user, "links")
    return _listed(request, actor, "links.html", {"table": hardware.links_page(asked)}, "Hardware")


@require_safe
@door(READ)
def models(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The models a team may name."""
    page = model_pages.models_page(with_kept_columns(request, actor.user, "models"), visible_models(actor.team))
    context = {"page": page, "table": page.table, **_may(actor)}
    return _listed(request, actor, "models.html", context, "Models")


@require_safe
@door(READ)
def model(request: HttpRequest, actor: Actor, slug: str) -> HttpResponse:
    """One model: how it is built, counted part by part."""
    spec = visible_models(actor.team).get(slug)
    if spec is None:
        raise NotFound(f"There is no model {slug!r}.")
    context = {"spec": spec, "page": model_pages.model_page(spec), **_may(actor)}
    return show(request, actor, "model.html", context, place="Models")


@require_http_methods(["GET", "HEAD", "POST"])
@door(PLAN)
def model_import(request: HttpRequest, actor: Actor) -> HttpResponse:
    """A config.json becomes a model of the team's own."""
    typed = {name: request.POST.get(name, "") for name in ("name", "config", "source")}
    if request.method != "POST":
        return show(request, actor, "model_import.html", {"typed": typed}, place="Models")
    reading = read_pasted(typed["config"], visible_models(actor.team))
    faults = [(f"/config{fault.pointer}", fault.detail) for fault in reading.faults]
    if not faults:
        try:
            spec = model_spec_import(
                config=reading.config,
                name=typed["name"],
                team=actor.team,
                user=actor.user,
                source=typed["source"].strip(),
            )
        except InvalidRequest as error:
            faults = [(fault.pointer, fault.detail) for fault in error.faults]
        else:
            return show(
                request,
                actor,
                "model.html",
                {"spec": spec, "page": model_pages.model_page(spec), "imported": True, **_may(actor)},
                place="Models",
                status=201,
            )
    context = {"typed": typed, "faults": faults, "reading": reading}
    return show(request, actor, "model_import.html", context, place="Models", status=422)


@require_http_methods(["POST"])
@door(READ)
def model_reading(request: HttpRequest, actor: Actor) -> HttpResponse:
    """What a pasted config.json says, for the panel beside the field."""
    reading = read_pasted(request.POST.get("config", ""), visible_models(actor.team))
    return show(request, actor, "parts/_reading.html", {"reading": reading})


@require_safe
@door(READ)
def optimizers(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Every optimizer with what it keeps per parameter."""
    page = optimizer_pages.optimizers_page(
        with_kept_columns(request, actor.user, "optimizers"), visible_models(actor.team)
    )
    return _listed(request, actor, "optimizers.html", {"page": page, "table": page.table}, "Models")


@require_safe
@door(READ)
def optimizer(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    """One optimizer."""
    row = OPTIMIZERS.get(name)
    if row is None:
        raise NotFound(f"There is no optimizer {name!r}.")
    page = optimizer_pages.optimizer_page(row, visible_models(actor.team), request.GET.get("model", ""))
    return show(request, actor, "optimizer.html", {"page": page, "row": row}, place="Models")


def _may(actor: Actor) -> dict[str, bool]:
    return {
        "may_plan": PLAN in actor.allowed,
        "may_edit": EDIT_CATALOG in actor.allowed and actor.user.is_staff,
    }
