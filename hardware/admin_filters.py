"""Filters of the catalog's lists: what is old, what has no price, what nobody has compared with its source."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone

from hardware.models import Offer

FRESH_DAYS, STALE_DAYS = 7, 180


class StaleFilter(admin.SimpleListFilter):
    """By the age of the newest price."""

    title = "price age"
    parameter_name = "stale"
    dates = "offers__"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return (
            ("fresh", f"at most {FRESH_DAYS} days"),
            ("stale", f"older than {FRESH_DAYS} days"),
            ("old", f"older than {STALE_DAYS} days"),
        )

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        newest = Coalesce(Max(f"{self.dates}price_date"), Max(f"{self.dates}price_not_after"))
        rows: QuerySet[Any] = queryset.annotate(newest_price=newest)
        today = timezone.localdate()
        limit = today - timedelta(days=STALE_DAYS if self.value() == "old" else FRESH_DAYS)
        wanted = Q(newest_price__gte=limit) if self.value() == "fresh" else Q(newest_price__lt=limit)
        kept: QuerySet[Any] = rows.filter(wanted)
        return kept


class StaleOfferFilter(StaleFilter):
    """The same over the offers themselves."""

    dates = ""


class WithoutPriceFilter(admin.SimpleListFilter):
    """Devices that nobody sells."""

    title = "price"
    parameter_name = "priced"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return (("no", "without price"), ("yes", "with price"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        sold = Exists(Offer.objects.filter(accelerator_id=OuterRef("slug"), retired=False))
        return queryset.filter(sold if self.value() == "yes" else ~sold)


class SourceFilter(admin.SimpleListFilter):
    """Rows whose numbers cannot be read again, or were never compared with where they came from."""

    title = "source"
    parameter_name = "sourced"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return (("no", "without source"), ("unchecked", "never checked"), ("undated", "source without date"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        wanted = {
            "no": Q(source="") | Q(confidence="assumed"),
            "unchecked": Q(checked_date=None),
            "undated": Q(source_date=None),
        }.get(self.value() or "")
        return queryset if wanted is None else queryset.filter(wanted)
