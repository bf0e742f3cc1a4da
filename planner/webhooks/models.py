"""Endpoints that are told when a plan ends, and each telling with its tries."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils import timezone
from simple_history.models import HistoricalRecords

from planner.plans.models import PlanRun
from planner.teams.models import Team, slug_validator

MAX_URL = 500


class Webhook(models.Model):
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="webhooks")
    slug = models.CharField(max_length=128, validators=[slug_validator])
    url = models.CharField(max_length=MAX_URL)
    active = models.BooleanField(default=True)
    # The secret itself is kept nowhere: it is derived from the instance's key and these two.
    secret_salt = models.UUIDField(default=uuid.uuid4, editable=False)
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)
    history = HistoricalRecords(excluded_fields=["secret_salt"])

    class Meta:
        ordering: ClassVar = ["slug"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["team", "slug"], name="webhook_slug_once_per_team")]

    def __str__(self) -> str:
        return self.slug


class DeliveryStatus(models.TextChoices):
    PENDING = "pending", "Pending"
    DELIVERED = "delivered", "Delivered"
    FAILED = "failed", "Failed"


class WebhookDelivery(models.Model):
    """One message to one endpoint: written with the end of the plan, sent until it is taken or given up."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    plan = models.ForeignKey(PlanRun, on_delete=models.CASCADE, related_name="deliveries")
    status = models.CharField(max_length=10, choices=DeliveryStatus, default=DeliveryStatus.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(default=timezone.now)
    last_status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="HTTP status of the last try.")
    last_error = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-id"]
        indexes: ClassVar = [
            models.Index(
                fields=["next_attempt_at"], name="delivery_due", condition=models.Q(status=DeliveryStatus.PENDING)
            )
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["webhook", "plan"], name="delivery_once_per_plan"),
            models.CheckConstraint(condition=models.Q(status__in=DeliveryStatus.values), name="delivery_status_known"),
        ]

    def __str__(self) -> str:
        return f"{self.webhook_id} about {self.plan_id}: {self.status}"
