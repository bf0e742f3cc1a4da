"""Celery's doors: each takes an id and calls one service. Names are frozen: messages of older releases must fit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from celery import shared_task

from planner.plans.running import plan_execute
from planner.plans.services import plans_sweep


@shared_task(name="planner.plan_run")
def plan_run(plan_id: str, **_later: Any) -> None:
    """Run one plan; a copy of this message finds nothing left to do."""
    plan_execute(plan_id=UUID(plan_id))


@shared_task(name="planner.plans_sweep")
def sweep(**_later: Any) -> None:
    """Ring again for plans that nobody is at work on."""
    plans_sweep()
