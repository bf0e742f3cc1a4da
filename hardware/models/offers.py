"""Offer: what one whole instance costs an hour, where, under which terms, and when that was read."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from django.db import models
from django.db.models import Q
from simple_history.models import HistoricalRecords

from hardware.choices import Commitment, DatePrecision, PricingKind
from hardware.columns import OFFERS, Table
from hardware.models.catalog_row import CatalogRow

_ITEM = ("provider", "region", "instance_name", "accelerator", "accelerator_count", "pricing_kind", "commitment")


class Offer(CatalogRow):
    table: ClassVar[Table] = OFFERS

    provider = models.CharField(max_length=60)
    region = models.CharField(max_length=60)
    instance_name = models.CharField(max_length=80)
    node_type = models.ForeignKey(
        "hardware.NodeType",
        on_delete=models.PROTECT,
        to_field="slug",
        null=True,
        blank=True,
        related_name="offers",
        help_text="Empty where nothing is known of this machine but its price.",
    )
    accelerator = models.ForeignKey(
        "hardware.Accelerator", on_delete=models.PROTECT, to_field="slug", related_name="offers"
    )
    accelerator_count = models.PositiveSmallIntegerField(help_text="Devices in ONE instance.")
    pricing_kind = models.CharField(max_length=10, choices=PricingKind)
    commitment = models.CharField(max_length=2, choices=Commitment, blank=True, default="")
    usd_per_hour = models.DecimalField(
        max_digits=12, decimal_places=6, help_text="US dollars an hour for the WHOLE instance (p5.48xlarge: 55.04)."
    )
    price_date = models.DateField(null=True, blank=True, help_text="The day the price held; empty where unknown.")
    date_precision = models.CharField(max_length=10, choices=DatePrecision)
    price_not_before = models.DateField(null=True, blank=True, help_text="Undated: the window the price was read in.")
    price_not_after = models.DateField(null=True, blank=True)
    price_confirmed = models.BooleanField(
        default=False, help_text="Tick where a device-hour outside $0.05 to $50 is really meant."
    )
    billing_period_seconds = models.PositiveIntegerField(
        null=True, blank=True, help_text="Usage is rounded up to whole periods: 1, 60, 3600. Empty where not known."
    )
    billing_minimum_seconds = models.PositiveIntegerField(
        null=True, blank=True, help_text="Least that is billed of a run; empty: one period."
    )
    # The default of the database, too: the release before writes rows without this column while both serve.
    billing_source = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Where the terms can be read."
    )
    history = HistoricalRecords()

    class Meta:
        ordering = ("accelerator_id", "provider", "region", "instance_name", "pricing_kind", "commitment", "price_date")
        constraints = (
            models.CheckConstraint(
                name="offer_price_positive",
                condition=Q(usd_per_hour__gt=0),
                violation_error_message="A price is above 0; delete or retire the row where there is none.",
            ),
            models.CheckConstraint(
                name="offer_count_positive",
                condition=Q(accelerator_count__gte=1),
                violation_error_message="An instance has at least 1 device.",
            ),
            # Two constraints, because a null date never equals another one.
            models.UniqueConstraint(
                name="offer_item_dated",
                fields=(*_ITEM, "price_date"),
                condition=Q(price_date__isnull=False),
                violation_error_message="This item has a price of that day already: edit that row.",
            ),
            models.UniqueConstraint(
                name="offer_item_undated",
                fields=_ITEM,
                condition=Q(price_date__isnull=True),
                violation_error_message="This item has an undated price already: edit that row.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.provider} {self.region} {self.instance_name} {self.pricing_kind} {self.commitment}".rstrip()

    @property
    def usd_per_accelerator_hour(self) -> Decimal:
        """Derived, so that it can never disagree with the instance's price."""
        return self.usd_per_hour / self.accelerator_count
