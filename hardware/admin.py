"""The catalog's pages for the people who keep it: every save is an edit of its own, and a new revision."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import Count, Min, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from import_export.admin import ImportExportMixin
from import_export.formats.base_formats import CSV
from simple_history.admin import SimpleHistoryAdmin

from accounting.units import GIB, MIB
from hardware.choices import Origin
from hardware.consistency import price_flags
from hardware.models import Accelerator, CatalogRevision, Interconnect, NodeType, Offer
from hardware.models.catalog_row import CatalogRow
from hardware.resources import AcceleratorResource, InterconnectResource, NodeTypeResource, OfferResource
from hardware.revision import catalog_changed

_SOURCE = (
    "source",
    ("source_date", "checked_date", "confidence"),
    "unknown",
    "note",
    "retired",
    ("origin", "changed_at"),
)


def announce_change(request: HttpRequest, cause: str) -> None:
    """A new revision, said on the page: plans name the one they were made from."""
    revision = catalog_changed(f"{cause} by {request.user}")
    messages.info(
        request, f"Revision {revision.number}. New plans use it; saved plans keep the values they were made with."
    )


class CatalogRowAdmin(ImportExportMixin, SimpleHistoryAdmin):  # type: ignore[misc]  # both untyped
    readonly_fields: ClassVar = ("slug", "origin", "changed_at")
    named_once: ClassVar[tuple[str, ...]] = ("name",)
    """Fields that make the slug other rows refer to: fixed after the first save."""
    list_per_page = 100
    actions: ClassVar = ("mark_checked", "retire")
    formats: ClassVar = (CSV,)
    history_list_display: ClassVar = ("origin",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return (*self.readonly_fields, *(self.named_once if obj else ()))

    def save_model(self, request: HttpRequest, obj: CatalogRow, form: Any, change: bool) -> None:
        obj.origin = Origin.EDITED
        super().save_model(request, obj, form, change)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        for row in formset.save(commit=False):
            row.origin = Origin.EDITED
            row.save()
        for row in formset.deleted_objects:
            row.delete()
        formset.save_m2m()

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if not change or form.has_changed() or any(formset.has_changed() for formset in formsets):
            announce_change(request, f"{form.instance._meta.verbose_name} {form.instance} saved")

    def delete_model(self, request: HttpRequest, obj: CatalogRow) -> None:
        name = str(obj)
        super().delete_model(request, obj)
        announce_change(request, f"{name} deleted")

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[CatalogRow]) -> None:
        count = queryset.count()
        super().delete_queryset(request, queryset)
        announce_change(request, f"{count} {queryset.model._meta.verbose_name_plural} deleted")

    @admin.action(description="Mark checked today")
    def mark_checked(self, request: HttpRequest, queryset: QuerySet[CatalogRow]) -> None:
        self._set(request, queryset, "checked", checked_date=timezone.localdate())

    @admin.action(description="Retire (kept for old plans)")
    def retire(self, request: HttpRequest, queryset: QuerySet[CatalogRow]) -> None:
        self._set(request, queryset, "retired", retired=True)

    def _set(self, request: HttpRequest, queryset: QuerySet[CatalogRow], what: str, **values: Any) -> None:
        rows = list(queryset)
        for row in rows:
            for name, value in {**values, "origin": Origin.EDITED}.items():
                setattr(row, name, value)
            row.save()
        announce_change(request, f"{len(rows)} {queryset.model._meta.verbose_name_plural} {what}")


class OfferInline(admin.TabularInline):  # type: ignore[type-arg]  # generic in the stubs only
    model = Offer
    extra = 0
    show_change_link = True
    fields = (
        "region",
        "pricing_kind",
        "commitment",
        "usd_per_hour",
        "price_date",
        "date_precision",
        "source",
        "confidence",
    )
    readonly_fields = ("region", "pricing_kind", "commitment", "price_date", "date_precision", "source", "confidence")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Accelerator)
class AcceleratorAdmin(CatalogRowAdmin):
    resource_classes: ClassVar = (AcceleratorResource,)
    list_display = (
        "name", "slug", "capacity", "bf16_teraflops", "memory_bandwidth_gigabytes_per_second", "offer_count",
        "oldest_price", "confidence", "origin", "changed_at",
    )  # fmt: skip
    list_filter = ("vendor", "kind", "architecture", "confidence", "origin", "retired")
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
        return row.price_oldest.isoformat() if row.price_oldest else "no dated price"


@admin.register(NodeType)
class NodeTypeAdmin(CatalogRowAdmin):
    resource_classes: ClassVar = (NodeTypeResource,)
    named_once = ("provider", "instance_name")
    list_display = (
        "instance_name", "provider", "slug", "accelerator_count", "accelerator", "intra_link", "inter_link",
        "inter_gigabits_per_second_total", "assumed", "confidence", "origin",
    )  # fmt: skip
    list_filter = ("provider", "topology", "assumed", "confidence", "origin", "retired")
    list_select_related = ("accelerator",)
    search_fields = ("slug", "instance_name", "provider", "accelerator__name")
    autocomplete_fields = ("accelerator", "intra_interconnect", "inter_interconnect")
    inlines = (OfferInline,)
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
    list_filter = ("scope", "topology", "confidence", "origin")
    search_fields = ("name", "slug", "used_by")


@admin.register(Offer)
class OfferAdmin(CatalogRowAdmin):
    resource_classes: ClassVar = (OfferResource,)
    readonly_fields = ("origin", "changed_at", "usd_per_accelerator_hour")
    named_once = ()
    list_display = (
        "__str__", "accelerator", "accelerator_count", "usd_per_hour", "usd_per_accelerator_hour", "price_date",
        "date_precision", "confidence", "origin",
    )  # fmt: skip
    list_filter = ("provider", "pricing_kind", "commitment", "date_precision", "confidence", "origin", "retired")
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
        ("Source", {"fields": _SOURCE}),
    )  # fmt: skip

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
