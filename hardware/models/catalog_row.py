"""What every catalog row carries: its source, how far to trust it, who wrote it, why a value is missing."""

from __future__ import annotations

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.db import models

from hardware.choices import Confidence, Origin
from hardware.columns import Row, Table
from hardware.validators import row_faults


class CatalogRow(models.Model):
    source = models.CharField(max_length=300, help_text="Where the numbers can be read again, with commit or date.")
    source_date = models.DateField(null=True, blank=True, help_text="The day the source was written, where it says so.")
    checked_date = models.DateField(null=True, blank=True, help_text="The day somebody last compared row and source.")
    confidence = models.CharField(max_length=10, choices=Confidence)
    unknown = models.JSONField(
        default=dict, blank=True, help_text='Why a value is missing: {"power_watts": "power not published"}.'
    )
    note = models.TextField(blank=True)
    origin = models.CharField(max_length=10, choices=Origin, default=Origin.EDITED, editable=False)
    retired = models.BooleanField(default=False, help_text="No longer offered to new plans; kept for old ones.")
    changed_at = models.DateTimeField(auto_now=True)

    table: ClassVar[Table]
    """The file this kind of row is shipped in."""

    class Meta:
        abstract = True

    def row(self) -> Row:
        """The plain values of this row, as the files carry them."""
        row = {attribute: getattr(self, attribute) for attribute in self.table.attributes}
        if self.table.slug:
            row["slug"] = self.table.slug(row)
        return row

    def clean(self) -> None:
        super().clean()
        self.unknown = self.unknown or {}  # what a form sends for an emptied field
        words = self.unknown.items() if isinstance(self.unknown, dict) else [(0, 0)]
        if not all(isinstance(name, str) and isinstance(reason, str) and reason for name, reason in words):
            raise ValidationError({"unknown": 'Write {"column": "why it is empty", …}, one reason for each.'})
        row = self.row()
        if "slug" in row:
            self.slug = row["slug"]
        faults = row_faults(self.table, row)
        if faults:
            names = {field.attname: field.name for field in self._meta.concrete_fields}
            messages: dict[str, list[str]] = {}
            for fault in faults:
                messages.setdefault(names.get(fault.attribute, "source"), []).append(fault.message)
            raise ValidationError(messages)
