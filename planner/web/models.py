"""What a person chose for their own pages."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Preferences(models.Model):
    """One row a person: the columns of each list, and whether single letters act as keys."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="preferences"
    )
    columns = models.JSONField(default=dict, blank=True)
    """Name of a list to its chosen columns, separated by commas."""
    letter_keys = models.BooleanField(default=True)

    class Meta:
        app_label = "planner"
        verbose_name_plural = "preferences"

    def __str__(self) -> str:
        return str(self.user_id)
