"""At-least-once execution with an effect that happens exactly once, for every kind of job.

One conditional UPDATE claims a row, one fenced UPDATE ends it; between them a heartbeat renews the lease under the same
fence. Whoever loses the fence throws its work away, so two runners at once are harmless. All times are the database's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from planner.errors import InvalidHeader

MAX_ATTEMPTS = 5
RESEND_AFTER = timedelta(seconds=60)
RESEND_GROWTH = 2
SWEEP_LIMIT = 200
MAX_KEY = 255

Jobs = QuerySet[Any]
"""Rows of one kind of job that have not ended."""


def lease_length() -> timedelta:
    """How long a runner may be silent before another may take its job."""
    return timedelta(seconds=settings.PLAN_LEASE_SECONDS)


def check_key(key: str) -> None:
    if not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        raise InvalidHeader(f"Idempotency-Key takes 1 to {MAX_KEY} printable ASCII characters")


def claim(jobs: Jobs, job_id: UUID, **reset: object) -> UUID | None:
    """Take a job that nobody holds, or whose holder fell silent: the new lease, or None if nothing is left to do."""
    end_poisoned(jobs.filter(pk=job_id))
    lease = uuid4()
    claimed = jobs.filter(pk=job_id, lease_until__lte=Now()).update(
        status="running",
        lease=lease,
        lease_until=Now() + lease_length(),
        attempts=F("attempts") + 1,
        started_at=Now(),
        # From here on the lease alone says when somebody else may be called.
        send_after=Now(),
        **reset,
    )
    return lease if claimed else None


def heartbeat(jobs: Jobs, job_id: UUID, lease: UUID, **progress: object) -> bool:
    """Renew the lease and tell the progress; False where the job was cancelled or taken over."""
    return bool(jobs.filter(pk=job_id, lease=lease).update(lease_until=Now() + lease_length(), **progress))


def finish(jobs: Jobs, job_id: UUID, lease: UUID, **result: object) -> bool:
    """Write the result once. False where the fence is lost: the result is then thrown away."""
    return bool(jobs.filter(pk=job_id, lease=lease).update(finished_at=Now(), lease=None, **result))


def end_poisoned(jobs: Jobs) -> int:
    """A job that took its worker down again and again ends; it must not loop for ever."""
    return jobs.filter(attempts__gte=MAX_ATTEMPTS, lease_until__lte=Now()).update(
        status="failed",
        finished_at=Now(),
        lease=None,
        error_code="worker_lost_repeatedly",
        error_detail=f"{MAX_ATTEMPTS} workers were lost while they ran this {jobs.model._meta.verbose_name}",
    )


def sweep(jobs: Jobs, ring: Callable[[Any], bool]) -> int:
    """Ring again for every job that waits with nobody at work on it; the number rung for. Safe to run twice at once.

    `ring` takes the row and says whether the broker took the message.
    """
    end_poisoned(jobs)
    due = jobs.filter(lease_until__lte=Now(), send_after__lte=Now()).order_by("send_after")
    sent = 0
    for row in list(due.defer("request", "answer")[:SWEEP_LIMIT]):
        if not ring(row):
            break
        # Ever later for what has waited long: behind a long queue few messages are lost, and copies of them add up.
        later = max(RESEND_AFTER, RESEND_GROWTH * (timezone.now() - row.created_at))
        jobs.filter(pk=row.pk).update(send_after=Now() + later)
        sent += 1
    return sent
