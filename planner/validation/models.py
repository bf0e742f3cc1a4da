"""Validations and what was learnt from them."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from planner.jobs.models import JobRun, job_constraints
from planner.teams.models import Team
from planner.validation.kinds import KINDS


class ValidationStatus(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


FINAL = (ValidationStatus.SUCCEEDED, ValidationStatus.FAILED, ValidationStatus.CANCELLED)
ANSWERED = (ValidationStatus.SUCCEEDED,)


def kind_choices() -> list[tuple[str, str]]:
    return [(row.name, row.title) for row in KINDS.values()]


class ValidationRun(JobRun):
    """One configuration measured: `answer` holds predicted beside measured, the columns what statistics group by."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="validations")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="validations"
    )
    kind = models.CharField(max_length=12, choices=kind_choices)
    status = models.CharField(max_length=12, choices=ValidationStatus, default=ValidationStatus.QUEUED)
    progress = models.FloatField(default=0.0)
    model = models.CharField(max_length=128, blank=True, default="")
    sharding_engine = models.CharField(max_length=16, blank=True, default="")
    accelerator = models.CharField(max_length=128, blank=True, default="")
    framework = models.CharField(max_length=64, blank=True, default="")
    predicted_bytes = models.BigIntegerField(null=True, blank=True)
    measured_bytes = models.BigIntegerField(null=True, blank=True)
    predicted_seconds = models.FloatField(null=True, blank=True)
    measured_seconds = models.FloatField(null=True, blank=True)
    agrees = models.BooleanField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-id"]
        verbose_name = "validation"
        indexes: ClassVar = [
            models.Index(fields=["team", "-created_at", "-id"], name="validation_list"),
            models.Index(
                fields=["send_after"], name="validation_sweep", condition=models.Q(status__in=["queued", "running"])
            ),
        ]
        constraints: ClassVar = [
            *job_constraints("validation", statuses=ValidationStatus.values, final=FINAL, answered=ANSWERED),
            models.CheckConstraint(
                condition=models.Q(progress__gte=0, progress__lte=1), name="validation_progress_is_a_share"
            ),
        ]

    def __str__(self) -> str:
        return f"validation {self.id} ({self.kind}, {self.status})"

    @property
    def is_final(self) -> bool:
        return self.status in FINAL


class CalibrationSet(models.Model):
    """One version of the bands and factors learnt from stored measurements; at most one is in force."""

    version = models.PositiveIntegerField(unique=True)
    # Text for the reason given at JobRun.request.
    rows = models.TextField(help_text="A row an engine and kind: factor, band, runs fitted on and held out, errors.")
    measurements = models.PositiveIntegerField(help_text="Validations it was learnt from.")
    newest = models.DateTimeField(null=True, blank=True, help_text="When the last of them ended.")
    engine_version = models.CharField(max_length=64)
    in_force = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering: ClassVar = ["-version"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["in_force"], condition=models.Q(in_force=True), name="calibration_set_one_in_force"
            )
        ]

    def __str__(self) -> str:
        return f"calibration set {self.version}" + (", in force" if self.in_force else "")
