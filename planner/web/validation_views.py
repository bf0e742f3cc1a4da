"""Predicted beside measured: the team's runs, what the likely ranges rest on, and a new measurement."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from accounting.facts.bands import BANDS
from accounting.facts.calibration import CALIBRATION
from accounting.units import GIB
from planner.errors import InvalidRequest, NotFound
from planner.plans.selectors import plan_of
from planner.teams.models import Team
from planner.teams.selectors import PLAN, READ, Actor
from planner.validation.kinds import KINDS as RUN_KINDS
from planner.validation.models import ValidationRun
from planner.validation.selectors import statistics_of, validation_of, validations_of
from planner.validation.services import validation_cancel, validation_of_option
from planner.web import format as text
from planner.web import words
from planner.web.charts.parity import Pair, parity
from planner.web.charts.ranges import ranges
from planner.web.door import door, show
from planner.web.downloads import KINDS, as_file
from planner.web.figures import csv_of, drawing_of, pair_rows
from planner.web.home import band_name, family, memory_ranges, time_ranges
from planner.web.ledger import Fact
from planner.web.tables import Cell, Column, Row, number, table

PER_PAGE = 50
MOST_MARKS = 400

COLUMNS = (
    Column("name", "Run"),
    Column("status", "State"),
    Column("predicted", "Predicted", "GiB", right=True),
    Column("measured", "Measured", "GiB", right=True),
    Column("error", "Error", right=True),
    Column("predicted_seconds", "Predicted", "s a step", right=True, optional=True),
    Column("measured_seconds", "Measured", "s a step", right=True, optional=True),
    Column("agrees", "Agrees"),
    Column("framework", "Measured with"),
    Column("day", "Day", right=True),
)
DEVICE_COLUMNS = (
    Column("name", "GPU family"),
    Column("rows", "Measured steps", right=True),
    Column("low", "10th", "measured over predicted", right=True),
    Column("high", "90th", "measured over predicted", right=True),
    Column("date", "Fitted", tight=True),
    Column("source", "Source"),
)
BAND_COLUMNS = (
    Column("name", "Whose code runs"),
    Column("runs", "Measured runs", right=True),
    Column("low", "5th", "measured over predicted", right=True),
    Column("high", "95th", "measured over predicted", right=True),
    Column("why", "Why so wide"),
)
ERROR_COLUMNS = (
    Column("name", "Engine"),
    Column("kind", "Kind"),
    Column("framework", "Measured with"),
    Column("runs", "Runs", right=True),
    Column("median", "Median error", right=True),
    Column("agree", "Agree", right=True),
)
_AGREES = {True: Cell("\u2713 yes", 0, tone="ok"), False: Cell("\u2715 no", 1, tone="bad"), None: Cell(text.DASH, 2)}


@require_safe
@door(READ)
def validations(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The team's runs, the errors by engine, the built-in constants."""
    runs = validations_of(actor.team)
    page = Paginator(runs.defer("answer", "request"), PER_PAGE).get_page(request.GET.get("page"))
    shown = table("validations", COLUMNS, [_row(run) for run in page.object_list], request.GET, "Newest first.")
    context = {
        "table": shown,
        "page": page,
        "chart": parity(_pairs(actor.team), "GiB"),
        "errors": table("errors", ERROR_COLUMNS, _error_rows(statistics_of(runs)), request.GET, "Memory, by engine."),
        "memory": ranges(memory_ranges()),
        "time": ranges(time_ranges()),
        "bands": table("memory", BAND_COLUMNS, _band_rows(), request.GET, "Card memory, built in."),
        "devices": table(
            "step-time", DEVICE_COLUMNS, _device_rows(), request.GET, f"Constants {CALIBRATION.version}, built in."
        ),
    }
    return show(request, actor, "validations.html", context, place="Validations")


def _pairs(team: Team) -> list[Pair]:
    """The newest measured runs."""
    measured = validations_of(team).filter(predicted_bytes__gt=0, measured_bytes__gt=0).defer("answer", "request")
    return [_pair(run) for run in measured[:MOST_MARKS]]


@require_safe
@door(READ)
def validations_figure(request: HttpRequest, actor: Actor, kind: str) -> HttpResponse:
    """Predicted against measured as CSV or as SVG."""
    pairs = _pairs(actor.team)
    chart = parity(pairs, "GiB")
    if chart is None or kind not in KINDS:
        raise NotFound("Nothing was measured yet.")
    drawn = csv_of(pair_rows(pairs)) if kind == "csv" else drawing_of("_parity.html", {"chart": chart})
    return as_file(drawn, f"predicted-and-measured.{kind}", KINDS[kind])


def _row(run: ValidationRun) -> Row:
    tone, sign, word = words.STATUS_WORDS.get(run.status, ("plain", "", run.status))
    word = "measured" if run.status == "succeeded" else word
    name = ", ".join(filter(None, (run.model or "own model", words.name(run.sharding_engine), run.kind)))
    return {
        "name": Cell(name, run.model, href=reverse("web:validation", args=[run.pk]), small=run.accelerator),
        "status": Cell(f"{sign} {word}", run.status, tone=tone),
        "predicted": _size(run.predicted_bytes),
        "measured": _size(run.measured_bytes),
        "error": _error(run.predicted_bytes, run.measured_bytes),
        "predicted_seconds": number(run.predicted_seconds, text.seconds_number(run.predicted_seconds)),
        "measured_seconds": number(run.measured_seconds, text.seconds_number(run.measured_seconds)),
        "agrees": _AGREES[run.agrees],
        "framework": Cell(run.framework or text.DASH),
        "day": Cell(text.day(run.created_at.date()), run.created_at.isoformat()),
    }


def _size(size: int | None) -> Cell:
    return number(size, text.DASH if size is None else text.gib_number(size, 3))


def _error(predicted: float | None, measured: float | None) -> Cell:
    if predicted is None or not measured:
        return number(None, text.DASH)
    return number(predicted / measured - 1, percent(predicted / measured))


def _pair(run: ValidationRun) -> Pair:
    predicted, measured = run.predicted_bytes or 0, run.measured_bytes or 0
    name = f"{run.model or 'own model'}, {words.name(run.sharding_engine)}: {percent(predicted / measured)}"
    group = words.name(run.sharding_engine)
    return Pair(measured / GIB, predicted / GIB, group, name, reverse("web:validation", args=[run.pk]))


def _error_rows(statistics: list[dict[str, Any]]) -> list[Row]:
    return [
        {
            "name": Cell(words.name(row["sharding_engine"]) or text.DASH),
            "kind": Cell(row["kind"]),
            "framework": Cell(row["framework"] or text.DASH),
            "runs": Cell(text.count(row["runs"]), row["runs"]),
            "median": Cell(percent(1 + row["median"]), row["median"]),
            "agree": Cell(f"{row['agree']:,} of {row['runs']:,}", row["agree"]),
        }
        for row in statistics
    ]


def _band_rows() -> list[Row]:
    return [
        {
            "name": Cell(band_name(name)),
            "runs": Cell(text.count(band.runs), band.runs),
            "low": Cell(percent(band.low), band.low),
            "high": Cell(percent(band.high), band.high),
            "why": Cell(band.why or text.DASH),
        }
        for name, band in BANDS.items()
    ]


def _device_rows() -> list[Row]:
    return [
        {
            "name": Cell(family(row.name)),
            "rows": Cell(text.count(row.rows), row.rows),
            "low": Cell(percent(row.band[0]), row.band[0]),
            "high": Cell(percent(row.band[1]), row.band[1]),
            "date": Cell(row.date),
            "source": Cell(row.source),
        }
        for row in CALIBRATION.devices.values()
    ]


def percent(ratio: float) -> str:
    """1.034 as +3.4 %."""
    difference = round(100 * (ratio - 1), 1)
    return text.signed(f"{text.fixed(abs(difference), 1)}{text.NBSP}%", difference)


@require_safe
@door(READ)
def validation(request: HttpRequest, actor: Actor, validation_id: UUID) -> HttpResponse:
    """One run, line by line."""
    run = validation_of(actor.team, validation_id)
    answer = json.loads(run.answer) if run.answer else {}
    facts = [
        Fact("Kind", RUN_KINDS[run.kind].title if run.kind in RUN_KINDS else run.kind),
        Fact("Model", run.model or "own model"),
        Fact("Engine", words.name(run.sharding_engine)),
        Fact("GPU", run.accelerator or text.DASH),
        Fact("Measured with", run.framework or text.NOT_KNOWN),
        Fact("Predicted", text.memory(run.predicted_bytes, 3), text.exact_bytes(run.predicted_bytes)),
        Fact("Measured", text.memory(run.measured_bytes, 3), text.exact_bytes(run.measured_bytes)),
    ]
    context = {
        "run": run,
        "facts": facts,
        "lines": [_compared(line) for line in (answer.get("comparison") or {}).get("lines") or ()],
        "environment": sorted((answer.get("environment") or {}).items()),
        "notes": answer.get("notes") or (),
        "status": words.STATUS_WORDS.get(run.status, ("plain", "", run.status)),
        "may_plan": PLAN in actor.allowed,
    }
    return show(request, actor, "validation.html", context, place="Validations")


def _compared(line: Any) -> tuple[str, str, str, str, str]:
    """(line, predicted, measured, error, agrees) of one comparison."""
    say = text.count if line.get("unit") == "byte" else (lambda value: text.DASH if value is None else f"{value:g}")
    predicted, measured = line.get("predicted"), line.get("measured")
    rank = "" if line.get("rank") is None else f", rank {line['rank']}"
    return (
        f"{line.get('line')}{rank}",
        say(predicted),
        say(measured),
        _error(predicted, measured).text,
        _AGREES[line.get("agrees")].text,
    )


@require_POST
@door(PLAN)
def validation_new(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Measure one option of a plan, by the cheapest kind that says enough where none is named."""
    rank = request.POST.get("rank", "")
    try:
        run = plan_of(actor.team, UUID(request.POST.get("plan", "")))
        number_of_option = int(rank)
    except ValueError:
        raise NotFound("There is no such plan and option.") from None
    kind = request.POST.get("kind") or None
    try:
        made = validation_of_option(team=actor.team, user=actor.user, plan_id=run.pk, rank=number_of_option, kind=kind)
    except InvalidRequest as error:
        context = {"run": run, "rank": rank, "faults": error.faults, "short_id": str(run.pk)[:8]}
        return show(request, actor, "validation_refused.html", context, place="Validations", status=422)
    return redirect("web:validation", validation_id=made.pk)


@require_POST
@door(PLAN)
def validation_end(request: HttpRequest, actor: Actor, validation_id: UUID) -> HttpResponse:
    """Cancel a run that waits or runs."""
    validation_cancel(validation_id=validation_id, team=actor.team, user=actor.user)
    return redirect("web:validation", validation_id=validation_id)
