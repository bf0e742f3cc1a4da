"""A plan in the database: the one truth about a job. The broker only rings the bell."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from planner.jobs.models import JobRun, job_constraints
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


class PlanRun(JobRun):
    """One search: what was asked, how far it is, and its answer."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="plans")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="plans"
    )
    status = models.CharField(max_length=12, choices=PlanStatus, default=PlanStatus.QUEUED)
    candidates_done = models.BigIntegerField(default=0)
    candidates_total = models.BigIntegerField(null=True, blank=True)
    webhook = models.ForeignKey(
        "planner.Webhook", null=True, blank=True, on_delete=models.SET_NULL, related_name="plans"
    )
    # Set with the plan, cleared with the message: what ended untold is found by the sweeper.
    webhook_due = models.BooleanField(default=False)
    catalog_revision = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        ordering: ClassVar = ["-created_at", "-id"]
        indexes: ClassVar = [
            models.Index(fields=["team", "-created_at", "-id"], name="plan_list"),
            models.Index(
                fields=["send_after"], name="plan_sweep", condition=models.Q(status__in=["queued", "running"])
            ),
        ]
        constraints: ClassVar = [
            *job_constraints("plan", statuses=PlanStatus.values, final=FINAL, answered=ANSWERED),
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
