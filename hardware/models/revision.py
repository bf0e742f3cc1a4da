"""CatalogRevision: the number that says which catalog a plan was made from."""

from __future__ import annotations

from django.db import models


class CatalogRevision(models.Model):
    """One row per change; the newest number is the current revision."""

    number = models.BigAutoField(primary_key=True)
    content_hash = models.CharField(max_length=64, help_text="SHA-256 over the hardware tables as exported.")
    cause = models.CharField(max_length=200, help_text="Who or what changed the catalog.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-number",)

    def __str__(self) -> str:
        return f"Revision {self.number}"
