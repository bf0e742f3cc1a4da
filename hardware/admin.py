"""The catalog's pages for the people who keep it: every save is an edit of its own, and a new revision."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Min, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from accounting.units import GIB, MIB
from hardware.admin_filters import SourceFilter, StaleFilter, StaleOfferFilter, WithoutPriceFilter
from hardware.admin_rows import CatalogRowAdmin, age_tag
from hardware.consistency import price_flags
from hardware.models import Accelerator, CatalogRevision, Interconnect, NodeType, Offer
from hardware.price_import import price_import
from hardware.resources import AcceleratorResource, InterconnectResource, NodeTypeResource, OfferResource

_SOURCE = (
    "source",
    ("source_date", "checked_date", "confidence"),
    "unknown",
    "note",
    "retired",
    ("origin", "changed_at"),
)


_PRICE = "usd_per_hour"
_OF_A_NODE = ("region", "pricing_kind", "commitment", _PRICE, "price_date", "date_precision", "source", "confidence")
_OF_A_DEVICE = ("provider", "instance_name", *_OF_A_NODE)


class OfferInline(admin.TabularInline):  # type: ignore[type-arg]  # generic in the stubs only
    """Offers under the row they are of: the price is edited in place, the rest on the offer's own page."""

    model = Offer
    extra = 0
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class NodeOfferInline(OfferInline):
    fields = _OF_A_NODE
    readonly_fields = tuple(name for name in _OF_A_NODE if name != _PRICE)


class DeviceOfferInline(OfferInline):
    fk_name = "accelerator"
    fields = _OF_A_DEVICE
    readonly_fields = tuple(name for name in _OF_A_DEVICE if name != _PRICE)


@admin.register(Accelerator)
class AcceleratorAdmin(CatalogRowAdmin):
    resource_classes: ClassVar = (AcceleratorResource,)
    inlines = (DeviceOfferInline,)
    list_display = (
        "name", "slug", "capacity", "bf16_teraflops", "memory_bandwidth_gigabytes_per_second", "offer_count",
        "oldest_price", "confidence", "origin", "changed_at",
    )  # fmt: skip
    list_filter = (
        StaleFilter, WithoutPriceFilter, SourceFilter, "vendor", "kind", "architecture", "confidence", "origin",
        "retired",
    )  # fmt: skip
    search_fields = ("name", "slug", "architecture")
    autocomplete_fields = ("parent", "default_node")
    fieldsets = (
        ("Identity", {"fields": ("name", "slug", "vendor", "architecture", "kind", ("year", "form_factor"),
                                 ("parent", "parent_fraction"), "software_devices", "default_node")}),
        ("Memory", {"fields": ("memory_bytes", "memory_reported_by", "memory_gb_marketing", "torch_total_gib",
                               "memory_type", "memory_bandwidth_gigabytes_per_second")}),
        ("Compute, dense", {"fields": ("fp32_teraflops", "tf32_teraflops", "fp16_teraflops", "bf16_teraflops",
                                       "fp8_teraflops", "fp4_teraflops", "int8_teraops", "measured_max_bf16_teraflops",
                                       "supports_bf16", "supports_fp8", "compute_capability", "power_watts")}),
        ("Links", {"fields": ("scaleup_link", "scaleup_gigabytes_per_second_per_direction",
                              "scaleup_gigabytes_per_second_bidirectional", "pcie_generation",
                              "pcie_gigabytes_per_second_per_direction")}),
        ("Source", {"fields": _SOURCE}),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Accelerator]:
        rows: QuerySet[Accelerator] = super().get_queryset(request)
        return rows.annotate(offers_held=Count("offers"), price_oldest=Min("offers__price_date"))

    @admin.display(description="Capacity, GiB (MiB)", ordering="memory_bytes")
    def capacity(self, row: Accelerator) -> str:
        size = row.memory_bytes
        return "unknown" if size is None else f"{size / GIB:.2f} ({size // MIB:,})"

    @admin.display(description="Offers", ordering="offers_held")
    def offer_count(self, row: Any) -> int:
        return int(row.offers_held)

    @admin.display(description="Oldest price", ordering="price_oldest")
    def oldest_price(self, row: Any) -> str:
        if row.price_oldest is None:
            return "no dated price"
        return f"{row.price_oldest.isoformat()} ({age_tag(row.price_oldest)})"


@admin.register(NodeType)
class NodeTypeAdmin(CatalogRowAdmin):
    resource_classes: ClassVar = (NodeTypeResource,)
    named_once = ("provider", "instance_name")
    list_display = (
        "instance_name", "provider", "slug", "accelerator_count", "accelerator", "intra_link", "inter_link",
        "inter_gigabits_per_second_total", "assumed", "confidence", "origin",
    )  # fmt: skip
    list_filter = (SourceFilter, "provider", "topology", "assumed", "confidence", "origin", "retired")
    list_select_related = ("accelerator",)
    search_fields = ("slug", "instance_name", "provider", "accelerator__name")
    autocomplete_fields = ("accelerator", "intra_interconnect", "inter_interconnect")
    inlines = (NodeOfferInline,)
    fieldsets = (
        ("Identity", {"fields": ("provider", "instance_name", "slug", ("accelerator", "accelerator_count"),
                                 "assumed")}),
        ("Host", {"fields": ("vcpus", "host_memory_bytes", "local_nvme_bytes")}),
        ("Inside", {"fields": ("intra_link", "intra_interconnect", "topology",
                               "intra_gigabytes_per_second_per_direction", "scaleup_domain_size")}),
        ("Between machines", {"fields": ("inter_link", "inter_interconnect", "inter_gigabits_per_second_total",
                                         "inter_gigabits_per_second_per_accelerator")}),
        ("Source", {"fields": _SOURCE}),
    )  # fmt: skip


@admin.register(Interconnect)
class InterconnectAdmin(CatalogRowAdmin):
    resource_classes: ClassVar = (InterconnectResource,)
    list_display = (
        "name",
        "scope",
        "gigabytes_per_second_per_direction",
        "achievable_fraction",
        "confidence",
        "origin",
    )
    list_filter = (SourceFilter, "scope", "topology", "confidence", "origin")
    search_fields = ("name", "slug", "used_by")


@admin.register(Offer)
class OfferAdmin(CatalogRowAdmin):
    resource_classes: ClassVar = (OfferResource,)
    readonly_fields = ("origin", "changed_at", "usd_per_accelerator_hour")
    named_once = ()
    list_display = (
        "__str__", "accelerator", "accelerator_count", "usd_per_hour", "usd_per_accelerator_hour", "price_date",
        "price_age", "date_precision", "confidence", "origin",
    )  # fmt: skip
    list_filter = (
        StaleOfferFilter, SourceFilter, "provider", "pricing_kind", "commitment", "date_precision", "confidence",
        "origin", "retired",
    )  # fmt: skip
    list_select_related = ("accelerator",)
    search_fields = ("provider", "region", "instance_name", "accelerator__name")
    autocomplete_fields = ("accelerator", "node_type")
    date_hierarchy = "price_date"
    fieldsets = (
        ("Item", {"fields": ("provider", "region", "instance_name", "node_type",
                             ("accelerator", "accelerator_count"))}),
        ("Price", {"fields": (("pricing_kind", "commitment"), ("usd_per_hour", "usd_per_accelerator_hour"),
                              "price_confirmed", ("price_date", "date_precision"),
                              ("price_not_before", "price_not_after"))}),
        ("Billing", {"fields": (("billing_period_seconds", "billing_minimum_seconds"), "billing_source")}),
        ("Source", {"fields": _SOURCE}),
    )  # fmt: skip

    change_list_template = "hardware/offers.html"

    def get_urls(self) -> list[URLPattern]:
        return [path("prices/", self.admin_site.admin_view(self.import_prices), name="hardware_offer_prices"),
                *super().get_urls()]  # fmt: skip

    def import_prices(self, request: HttpRequest) -> HttpResponse:
        """A public price catalog's file: converted to offers, then the same dry run as any spreadsheet."""
        if not self.has_import_permission(request):
            raise PermissionDenied
        return price_import(self, request)

    @admin.display(description="Price age", ordering="price_date")
    def price_age(self, row: Offer) -> str:
        if row.price_date is None:
            return "? undated"
        return age_tag(row.price_date)

    @admin.display(description="USD per device-hour")
    def usd_per_accelerator_hour(self, row: Offer) -> str:
        return f"{row.usd_per_accelerator_hour:.4f}" if row.pk else "after saving"

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        around = Offer.objects.filter(
            provider=obj.provider, region=obj.region, accelerator=obj.accelerator, retired=False
        )
        for flag in price_flags([row.row() for row in around]):
            messages.warning(request, f"Worth a second look: {flag}")


@admin.register(CatalogRevision)
class CatalogRevisionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("number", "created_at", "cause")
    readonly_fields = ("number", "created_at", "cause", "content_hash")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: CatalogRevision | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: CatalogRevision | None = None) -> bool:
        return False
