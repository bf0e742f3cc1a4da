"""Running one plan under its lease: the same in a Celery worker and inside a command."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings

from accounting.estimate import ENGINE_VERSION
from planner.documents import write_document
from planner.errors import InvalidRequest
from planner.ops.database import is_away
from planner.ops.metrics import count_plan_end
from planner.plans.exports import link_exports
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.services import plan_claim, plan_finish, plan_heartbeat
from planner.requests import context_for, read_plan
from planner.search import SearchCancelled, search

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS = 0.5
"""People watch the progress; this is also how soon a cancelled plan stops. Far below a third of the lease."""

Progress = Callable[[int, int], None]


class PlanTookTooLong(Exception):
    """The search passed its time limit; running it again would only do the same."""


class Heartbeat:
    """Renews the lease whenever the search reports or asks, and remembers when the fence was lost."""

    def __init__(self, plan_id: UUID, lease: UUID, watcher: Progress | None) -> None:
        self.plan_id, self.lease, self.watcher = plan_id, lease, watcher
        self.started = time.monotonic()
        self.last = float("-inf")
        self.done = 0
        self.total: int | None = None
        self.lost = False

    def progress(self, done: int, total: int) -> None:
        """Called between chunks of candidates."""
        self.done, self.total = done, total
        self._beat(now_or_never=done >= total)

    def cancelled(self) -> bool:
        """Also a sign of life: explaining what was found takes time of its own, after the last candidate."""
        self._beat()
        return self.lost

    def _beat(self, *, now_or_never: bool = False) -> None:
        now = time.monotonic()
        if now - self.started > settings.CELERY_TASK_SOFT_TIME_LIMIT:
            raise PlanTookTooLong
        if self.lost or (now - self.last < HEARTBEAT_SECONDS and not now_or_never):
            return
        self.last = now
        self.lost = not plan_heartbeat(plan_id=self.plan_id, lease=self.lease, done=self.done, total=self.total)
        if self.watcher is not None and self.total is not None:
            self.watcher(self.done, self.total)


def plan_execute(*, plan_id: UUID, watcher: Progress | None = None) -> bool:
    """Claim, search, finish. True where this call wrote the result; False where there was nothing (left) to do.

    A database that goes away is raised: the lease then runs out and the sweeper hands the plan to another.
    """
    lease = plan_claim(plan_id=plan_id)
    if lease is None:
        return False
    run = PlanRun.objects.select_related("team").get(pk=plan_id)
    started = time.monotonic()
    try:
        status, result = _outcome(run, Heartbeat(plan_id, lease, watcher))
    except SearchCancelled:
        return False
    written = plan_finish(plan_id=plan_id, lease=lease, status=status, **result)
    if written:
        ended = PlanRun.objects.only("status", "created_at", "finished_at", "candidates_done").get(pk=plan_id)
        count_plan_end(ended, time.monotonic() - started)
    return written


def _outcome(run: PlanRun, heartbeat: Heartbeat) -> tuple[PlanStatus, dict[str, Any]]:
    try:
        return _answer(run, heartbeat)
    except SearchCancelled:
        raise
    except PlanTookTooLong:
        limit = settings.CELERY_TASK_SOFT_TIME_LIMIT
        return _failure("time_limit", f"the search took longer than {limit:,} s; narrow its axes and ask again")
    except InvalidRequest as error:
        # Valid when it was accepted: the catalog has changed since.
        return _failure("invalid_request", "; ".join(f"{fault.pointer}: {fault.detail}" for fault in error.faults))
    except Exception as error:
        if is_away(error):
            raise
        log.exception("plan_failed", plan=str(run.pk))
        return _failure(
            "internal_error", "the search stopped on a fault of ours; it is in the log under this plan's id"
        )


def _answer(run: PlanRun, heartbeat: Heartbeat) -> tuple[PlanStatus, dict[str, Any]]:
    context = context_for(run.team)
    found = search(read_plan(json.loads(run.request), context), heartbeat.progress, heartbeat.cancelled)
    catalog = context.catalog
    link_exports(found, run, context)
    found["provenance"] = {
        **found.get("provenance", {}),
        "engine_version": ENGINE_VERSION,
        "calibration": context.evidence.version,
        "catalog_revision": catalog.revision,
        "catalog_hash": catalog.content_hash,
        "request_digest": run.request_digest,
    }
    status = PlanStatus.INFEASIBLE if found["recommendation"] is None else PlanStatus.SUCCEEDED
    return status, {
        "answer": write_document(found),
        "candidates_done": found["search"]["candidates"],
        "candidates_total": found["search"]["candidates"],
        "catalog_revision": str(catalog.revision),
        "engine_version": ENGINE_VERSION,
    }


def _failure(code: str, detail: str) -> tuple[PlanStatus, dict[str, Any]]:
    return PlanStatus.FAILED, {"error_code": code, "error_detail": detail}
