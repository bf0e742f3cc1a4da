"""The home page's summary: what the team's plans would cost, and how near predictions have been."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models.functions import Length, Substr

from accounting.facts.bands import BANDS
from accounting.facts.calibration import CALIBRATION
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.selectors import plans_of
from planner.teams.models import Membership, Team
from planner.web import format as text
from planner.web import words
from planner.web.charts.ranges import Measured

DAYS = 30
_MOST_PLANS = 200
_HEAD = 6_000
_MOST_FAMILIES = 4
_MOST_TEAMS = 8
_MORE = {"pipeline": "pipelines", "wide": "wide tensor parallel", "adapter": "adapters"}
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


def spending_of_teams(user: User, now: datetime) -> list[tuple[str, Spending]]:
    """What the plans of each of a person's teams would cost, by the team's name."""
    mine = Membership.objects.select_related("team").filter(user=user).order_by("team__name")[:_MOST_TEAMS]
    return [(row.team.name, spending_of(row.team, now)) for row in mine]


def band_name(name: str) -> str:
    """'megatron_fp16' as 'Megatron, fp16'; 'modules' are Megatron's layouts on plain torch modules."""
    engine, *more = name.split("_")
    first = "Torch modules" if engine == "modules" else words.name(engine)
    return ", ".join((first, *(_MORE.get(word, word) for word in more)))


def memory_ranges() -> list[Measured]:
    """Card memory, by whose code runs, the most measured first."""
    rows = sorted(BANDS.items(), key=lambda row: -row[1].runs)
    return [Measured(band_name(name), band.low, band.high, band.runs) for name, band in rows]


def time_ranges() -> list[Measured]:
    """Step time, by family of GPUs, the most measured first."""
    rows = sorted(CALIBRATION.devices.values(), key=lambda row: -row.rows)
    return [Measured(family(row.name), *row.band, row.rows, "steps") for row in rows]


def family(slug: str) -> str:
    """'ampere-consumer' as 'Ampere consumer'."""
    return slug.replace("-", " ").capitalize()


def accuracy() -> list[Measured]:
    """How near predictions have been, of what was measured most."""
    memory = [replace(row, name=f"Memory, {row.name}") for row in memory_ranges()[:_MOST_FAMILIES]]
    return memory + [replace(row, name=f"Step time, {row.name}") for row in time_ranges()[:_MOST_FAMILIES]]
