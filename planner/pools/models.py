"""Pool: devices a team already has, at its own internal price."""

from __future__ import annotations

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from simple_history.models import HistoricalRecords

from planner.teams.models import Team, slug_validator

MAX_DEVICES = 1 << 17
MAX_PRICE = 1e6


class Pool(models.Model):
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="pools")
    slug = models.CharField(max_length=128, validators=[slug_validator])
    name = models.CharField(max_length=200, blank=True)
    # Slugs, not keys: the catalog is read as a snapshot of one revision, and a retired row must not take a pool along.
    accelerator = models.CharField(max_length=128, help_text="Slug of the catalog.")
    node_type = models.CharField(max_length=128, help_text="Slug of the catalog: the machine the devices are in.")
    count = models.PositiveIntegerField(help_text="Devices, not machines.")
    usd_per_device_hour = models.FloatField(
        null=True, blank=True, help_text="The team's internal price; empty: not known, and plans say so."
    )
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)
    history = HistoricalRecords()

    class Meta:
        ordering: ClassVar = ["slug"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "slug"],
                name="pool_slug_once_per_team",
                violation_error_message="The team has a pool of this slug already.",
            ),
            models.CheckConstraint(
                condition=models.Q(count__gte=1, count__lte=MAX_DEVICES), name="pool_count_within_bounds"
            ),
            models.CheckConstraint(
                condition=models.Q(usd_per_device_hour__isnull=True)
                | models.Q(usd_per_device_hour__gte=0, usd_per_device_hour__lte=MAX_PRICE),
                name="pool_price_within_bounds",
            ),
        ]

    def __str__(self) -> str:
        return self.name or self.slug

    def clean(self) -> None:
        """The admin's check that the two slugs lead to rows that belong together."""
        super().clean()
        from planner.pools.services import hardware_faults  # noqa: PLC0415 - the service imports this model

        faults = hardware_faults(self.accelerator or "", self.node_type or "")
        if faults:
            raise ValidationError({fault.pointer.removeprefix("/"): fault.detail for fault in faults})
