"""Ringing the bell of a job: by task name and row id only, after the commit. Losing a message loses no work."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

log = structlog.get_logger(__name__)

PLAN_RUN = "planner.plan_run"
VALIDATION_RUN = "planner.validation_run"
GPU_VALIDATION_RUN = "planner.gpu.validation_run"
WEBHOOK_DELIVER = "planner.webhook_deliver"


def enqueue_on_commit(task: str, row: UUID) -> None:
    """Send once the transaction that wrote the row is in; a broker that is away is the sweeper's business."""
    transaction.on_commit(partial(send, task, row))


def send(task: str, row: UUID) -> bool:
    """True when the broker took the message. Never raises: the row is already promised to the client."""
    from planner.celery import app  # noqa: PLC0415 - a command that queues nothing need not pay for Celery's import

    try:
        # Said here as well: the default of the settings is a registered task's, and the web process knows names only.
        app.signature(task, args=(str(row),)).apply_async(retry=False, priority=settings.CELERY_TASK_DEFAULT_PRIORITY)
    except Exception as error:  # noqa: BLE001 - kombu lets any transport's own error through
        log.warning("enqueue_failed", task=task, row=str(row), error=type(error).__name__)
        return False
    return True
