"""The home page's summary: what the team's plans would cost, and how near predictions have been."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models.functions import Length, Substr

from accounting.facts.bands import BANDS
from accounting.facts.calibration import CALIBRATION
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.selectors import plans_of
from planner.teams.models import Team
from planner.web import format as text
from planner.web import words
from planner.web.ledger import Fact

DAYS = 30
_MOST_PLANS = 200
_HEAD = 6_000
_MOST_FAMILIES = 4
_USD = re.compile(r'"usd":(-?[0-9.eE+-]+|null)')
_HOURS = re.compile(r'"hours":(-?[0-9.eE+-]+|null)')
_COUNT = re.compile(r'"count":([0-9]+)')


@dataclass(frozen=True)
class Spending:
    """Recommended plans of the last days, added up; unknown prices are counted apart and never as 0."""

    plans: str
    usd: str
    gpu_hours: str
    unpriced: str
    infeasible: str


def spending_of(team: Team, now: datetime) -> Spending:
    """The first choices of a team's plans of the last 30 days."""
    recent = plans_of(team).filter(created_at__gte=now - timedelta(days=DAYS))
    done = recent.filter(status=PlanStatus.SUCCEEDED).order_by("-created_at")[:_MOST_PLANS]
    rows = [_head(row) for row in done.annotate(head=Substr("answer", 1, _HEAD), size=Length("answer")).defer("answer")]
    priced = [row for row in rows if row[0] is not None]
    usd = sum(row[0] or 0.0 for row in priced)
    return Spending(
        plans=text.count(len(rows)),
        usd=text.money(usd) if priced else text.NO_PRICE,
        gpu_hours=text.significant(sum(row[1] for row in rows)) if rows else "0",
        unpriced="" if len(priced) == len(rows) else text.count(len(rows) - len(priced)),
        infeasible=text.count(recent.filter(status=PlanStatus.INFEASIBLE).count()),
    )


def _head(run: Any) -> tuple[float | None, float]:
    """(dollars, GPU-hours) of a plan's first choice, from the head of its answer: the rest of it is long."""
    found = [pattern.search(run.head) for pattern in (_USD, _HOURS, _COUNT)]
    if run.size > _HEAD and not all(found):
        return _whole(PlanRun.objects.get(pk=run.pk))
    usd, hours, count = (json.loads(match[1]) if match else None for match in found)
    return usd, (hours or 0.0) * (count or 1)


def _whole(run: PlanRun) -> tuple[float | None, float]:
    best = json.loads(run.answer)["recommendation"]
    count = best["estimate"]["hardware"].get("count") or 1
    return best.get("usd"), (best.get("hours") or 0.0) * count


def band_name(name: str) -> str:
    """'megatron_fp16' as 'Megatron, fp16'."""
    engine, *more = name.split("_")
    return ", ".join(
        filter(None, (words.name(engine).capitalize() if engine == "modules" else words.name(engine), " ".join(more)))
    )


def accuracy() -> tuple[Fact, ...]:
    """How near predictions have been, by what was measured."""
    found = []
    for name, band in sorted(BANDS.items(), key=lambda row: -row[1].runs)[:_MOST_FAMILIES]:
        low, high = (text.fixed(100 * (edge - 1), 0) for edge in (band.low, band.high))
        found.append(Fact(f"Memory, {band_name(name)}", f"{low} to {high}{text.NBSP}% in {band.runs:,} runs"))
    for row in sorted(CALIBRATION.devices.values(), key=lambda row: -row.rows)[:_MOST_FAMILIES]:
        if row.rows:
            low, high = (text.fixed(100 * (edge - 1), 0) for edge in row.band)
            found.append(Fact(f"Step time, {row.name}", f"{low} to {high}{text.NBSP}% in {row.rows:,} steps"))
    return tuple(found)
