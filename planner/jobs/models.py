"""What every job's row holds: the one truth about it. The broker only rings the bell."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db import models
from django.utils import timezone


class JobRun(models.Model):
    """A job somebody asked for, run at least once and ended exactly once; `planner.jobs.leases` moves it along."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # Text, not JSON columns: PostgreSQL's jsonb reorders members and rewrites numbers; answers must keep their bytes.
    request = models.TextField()
    request_digest = models.CharField(max_length=64)
    idempotency_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001 - NULLs are never equal
    answer = models.TextField(blank=True, default="")
    error_code = models.CharField(max_length=64, blank=True, default="")
    error_detail = models.TextField(blank=True, default="")
    attempts = models.PositiveSmallIntegerField(default=0)
    lease = models.UUIDField(null=True, blank=True)
    # Never null: a sweeper that compares with `<` would skip a null for ever.
    lease_until = models.DateTimeField(default=timezone.now)
    send_after = models.DateTimeField(default=timezone.now)
    engine_version = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


def job_constraints(
    name: str, *, statuses: Collection[str], final: Collection[str], answered: Collection[str]
) -> list[models.BaseConstraint]:
    """States that cannot be, refused by the database; `name` begins every constraint's name."""
    is_final, is_answered = models.Q(status__in=final), models.Q(status__in=answered)
    return [
        models.UniqueConstraint(fields=["team", "idempotency_key"], name=f"{name}_once_per_idempotency_key"),
        models.CheckConstraint(condition=models.Q(status__in=statuses), name=f"{name}_status_known"),
        models.CheckConstraint(
            condition=models.Q(status__in=final, finished_at__isnull=False)
            | (~is_final & models.Q(finished_at__isnull=True)),
            name=f"{name}_final_has_an_end",
        ),
        models.CheckConstraint(
            condition=(is_answered & ~models.Q(answer="")) | (~is_answered & models.Q(answer="")),
            name=f"{name}_answer_with_its_status",
        ),
        models.CheckConstraint(
            condition=~models.Q(status="running") | models.Q(lease__isnull=False),
            name=f"{name}_running_under_a_lease",
        ),
    ]
