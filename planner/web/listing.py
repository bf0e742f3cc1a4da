"""The team's plans as rows of the home page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from hardware.revision import current_revision
from planner.plans.models import PlanRun, PlanStatus
from planner.web import format as text
from planner.web import words
from planner.web.context import kept_free_of
from planner.web.verdict import fit_state, machine
from planner.web.waiting import revision_moved
from planner.web.words import Json

_DAY_SECONDS = 86400
_MINUTES = 120.0
"""From here on the formatter writes minutes: an age in seconds with decimals says nothing."""


@dataclass(frozen=True)
class PlanRow:
    """One plan, ready to print."""

    id: UUID
    short_id: str
    title: str
    tone: str
    tag: str
    machine: str
    hours: str
    usd: str
    age: str
    created: datetime
    progress: float | None
    old: str
    """The catalog revision it was made from, where the catalog moved on since."""


def plan_rows(plans: Sequence[PlanRun], names: Mapping[str, str]) -> list[PlanRow]:
    """Read the head of each answer."""
    revision = current_revision()
    return [_row(run, names, revision) for run in plans]


def _row(run: PlanRun, names: Mapping[str, str], revision: int) -> PlanRow:
    request = json.loads(run.request)
    best: Json = (json.loads(run.answer).get("recommendation") if run.answer else None) or {}
    tone, sign, word = words.STATUS_WORDS[run.status]
    if best and fit_state(best.get("memory") or best, kept_free_of(request)) == "probably":
        tone, sign, word = "warn", "!", "probably fits"
    return PlanRow(
        id=run.pk,
        short_id=str(run.pk)[:8],
        title=words.plan_title(request),
        tone=tone,
        tag=f"{sign} {word}",
        machine=machine(best["estimate"], names) if best else text.DASH,
        hours=text.hours(best["hours"]) if best.get("hours") is not None else text.DASH,
        usd=_dollars(best) if best else text.DASH,
        age=_age((timezone.now() - run.created_at).total_seconds()),
        created=run.created_at,
        old=run.catalog_revision if revision_moved(run, revision) else "",
        progress=run.progress if run.status in (PlanStatus.QUEUED, PlanStatus.RUNNING) else None,
    )


def _dollars(best: Json) -> str:
    """The whole job's dollars; of an hour where the job has no length."""
    if best.get("usd") is None and best.get("usd_per_hour") is not None:
        return f"{text.money_rate(best['usd_per_hour'])} per hour"
    return text.money(best.get("usd"))


def _age(seconds: float) -> str:
    """'just now', '5 min', '3.2 h', '12 days'."""
    if seconds < 60:  # noqa: PLR2004 - a minute
        return "just now"
    if seconds < _DAY_SECONDS:
        return text.duration(max(seconds, _MINUTES))
    days = int(seconds // _DAY_SECONDS)
    return f"{days:,}{text.NBSP}day{'' if days == 1 else 's'}"
