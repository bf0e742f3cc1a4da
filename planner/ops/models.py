"""What runs the service: who changed or ran what, and when each periodic job last ran."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from planner.teams.models import Team


class AuditEvent(models.Model):
    """One line of the log of deeds; written once, changed by nobody."""

    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="audit_events")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="audit_events"
    )
    # The name as it was: the person may leave, the line stays.
    person = models.CharField(max_length=150, blank=True)
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=200)
    changes = models.TextField(default="{}", help_text='JSON: {"field": [old, new]}.')
    request_id = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering: ClassVar = ["-created_at", "-id"]
        indexes: ClassVar = [models.Index(fields=["team", "-created_at", "-id"], name="audit_list")]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"


class PeriodicJob(models.Model):
    """When a job of the schedule last ran: two schedules then run it once, and silence is seen."""

    name = models.CharField(max_length=64, primary_key=True)
    ran_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"{self.name} at {self.ran_at:%Y-%m-%d %H:%M:%S}"
