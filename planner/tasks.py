"""Celery's doors: each takes an id and calls one service. Names are frozen: messages of older releases must fit."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from planner.ops.log_lines import bind_job
from planner.ops.periodic import period_claim
from planner.ops.schedule import SWEEP, SWEEP_SECONDS
from planner.plans.running import plan_execute
from planner.plans.services import plans_sweep
from planner.validation.running import validation_execute
from planner.validation.services import validations_sweep
from planner.webhooks.services import delivery_send, webhooks_sweep


@shared_task(name="planner.plan_run")
def plan_run(plan_id: str, **_later: Any) -> None:
    """Run one plan; a copy of this message finds nothing left to do."""
    plan_execute(plan_id=bind_job(plan_id))


@shared_task(name="planner.validation_run")
def validation_run(validation_id: str, **_later: Any) -> None:
    """Run one validation that needs no device."""
    validation_execute(validation_id=bind_job(validation_id))


@shared_task(name="planner.gpu.validation_run")
def gpu_validation_run(validation_id: str, **_later: Any) -> None:
    """Run one validation on a worker that owns a device: its name puts it on that queue."""
    validation_execute(validation_id=bind_job(validation_id))


@shared_task(name="planner.plans_sweep")
def sweep(**_later: Any) -> None:
    """Ring again for plans that nobody is at work on, and for messages that were not taken; once in a period."""
    if period_claim(SWEEP, SWEEP_SECONDS):
        plans_sweep()
        validations_sweep()
        webhooks_sweep()


@shared_task(name="planner.webhook_deliver")
def webhook_deliver(delivery_id: str, **_later: Any) -> None:
    """One try to deliver a message; a copy of this one finds it taken, or not yet due again."""
    delivery_send(delivery_id=bind_job(delivery_id))
