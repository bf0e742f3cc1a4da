"""A plan in the database: the one truth about a job. The broker only rings the bell."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from planner.teams.models import Team


class PlanStatus(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    INFEASIBLE = "infeasible", "Infeasible"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


FINAL = (PlanStatus.SUCCEEDED, PlanStatus.INFEASIBLE, PlanStatus.FAILED, PlanStatus.CANCELLED)
ANSWERED = (PlanStatus.SUCCEEDED, PlanStatus.INFEASIBLE)


class PlanRun(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="plans")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="plans"
    )
    # Text, not JSON columns: PostgreSQL's jsonb reorders members and rewrites numbers; answers must keep their bytes.
    request = models.TextField()
    request_digest = models.CharField(max_length=64)
    idempotency_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001 - NULLs are never equal
    status = models.CharField(max_length=12, choices=PlanStatus, default=PlanStatus.QUEUED)
    candidates_done = models.BigIntegerField(default=0)
    candidates_total = models.BigIntegerField(null=True, blank=True)
    answer = models.TextField(blank=True, default="")
    error_code = models.CharField(max_length=64, blank=True, default="")
    error_detail = models.TextField(blank=True, default="")
    attempts = models.PositiveSmallIntegerField(default=0)
    lease = models.UUIDField(null=True, blank=True)
    # Never null: a sweeper that compares with `<` would skip a null for ever.
    lease_until = models.DateTimeField(default=timezone.now)
    send_after = models.DateTimeField(default=timezone.now)
    webhook = models.ForeignKey(
        "planner.Webhook", null=True, blank=True, on_delete=models.SET_NULL, related_name="plans"
    )
    # Set with the plan, cleared with the message: what ended untold is found by the sweeper.
    webhook_due = models.BooleanField(default=False)
    catalog_revision = models.CharField(max_length=64, blank=True, default="")
    engine_version = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-id"]
        indexes: ClassVar = [
            models.Index(fields=["team", "-created_at", "-id"], name="plan_list"),
            models.Index(
                fields=["send_after"], name="plan_sweep", condition=models.Q(status__in=["queued", "running"])
            ),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "idempotency_key"], name="plan_once_per_idempotency_key"),
            models.CheckConstraint(condition=models.Q(status__in=PlanStatus.values), name="plan_status_known"),
            models.CheckConstraint(
                condition=models.Q(status__in=FINAL, finished_at__isnull=False)
                | (~models.Q(status__in=FINAL) & models.Q(finished_at__isnull=True)),
                name="plan_final_has_an_end",
            ),
            models.CheckConstraint(
                condition=(models.Q(status__in=ANSWERED) & ~models.Q(answer=""))
                | (~models.Q(status__in=ANSWERED) & models.Q(answer="")),
                name="plan_answer_with_its_status",
            ),
            models.CheckConstraint(
                condition=~models.Q(status=PlanStatus.RUNNING) | models.Q(lease__isnull=False),
                name="plan_running_under_a_lease",
            ),
            models.CheckConstraint(condition=models.Q(candidates_done__gte=0), name="plan_progress_not_negative"),
        ]

    def __str__(self) -> str:
        return f"plan {self.id} ({self.status})"

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def progress(self) -> float:
        """Share of the candidates that were looked at, 0 to 1."""
        if self.status in ANSWERED:
            return 1.0
        if not self.candidates_total:
            return 0.0
        return min(1.0, self.candidates_done / self.candidates_total)
