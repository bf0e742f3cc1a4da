"""The catalog's pages for the people who keep it: every save is an edit of its own, and a new revision."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from http import HTTPStatus
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Min, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils import timezone
from import_export.admin import ImportExportMixin
from simple_history.admin import SimpleHistoryAdmin

from accounting.units import GIB, MIB
from hardware.admin_filters import FRESH_DAYS, SourceFilter, StaleFilter, StaleOfferFilter, WithoutPriceFilter
from hardware.choices import Origin
from hardware.consistency import price_flags
from hardware.import_report import report_of
from hardware.models import Accelerator, CatalogRevision, Interconnect, NodeType, Offer
from hardware.models.catalog_row import CatalogRow
from hardware.price_import import price_import
from hardware.resources import AcceleratorResource, InterconnectResource, NodeTypeResource, OfferResource
from hardware.revision import catalog_changed, current_revision
from hardware.signals import catalog_edited
from hardware.uploads import BoundedCSV, BoundedXLSX, UploadError

_SOURCE = (
    "source",
    ("source_date", "checked_date", "confidence"),
    "unknown",
    "note",
    "retired",
    ("origin", "changed_at"),
)


PUBLIC_PAGES = {"accelerator": ("web:device", "slug"), "nodetype": ("web:node", "slug"),
                "offer": ("web:device", "accelerator_id")}  # fmt: skip


def public_page(row: CatalogRow) -> str | None:
    """Where people without the admin read this row."""
    page = PUBLIC_PAGES.get(str(row._meta.model_name))
    if page is None:
        return None
    try:
        return reverse(page[0], args=[getattr(row, page[1])])
    except NoReverseMatch:
        return None


def age_tag(day: date) -> str:
    """How old a price is, with a sign that says whether that is old."""
    days = (timezone.localdate() - day).days
    return f"{'!' if days > FRESH_DAYS else chr(0x2713)} {days:,} days"


def announce_change(request: HttpRequest, cause: str, rows: Sequence[Any] = ()) -> None:
    """A new revision, said on the page: plans name the one they were made from."""
    revision = catalog_changed(f"{cause} by {request.user}")
    said = [sentence for _, sentence in catalog_edited.send(sender=CatalogRevision, rows=rows) if sentence]
    messages.info(request, " ".join([f"Revision {revision.number}.", *said]))


class CatalogRowAdmin(ImportExportMixin, SimpleHistoryAdmin):  # type: ignore[misc]  # both untyped
    readonly_fields: ClassVar = ("slug", "origin", "changed_at")
    named_once: ClassVar[tuple[str, ...]] = ("name",)
    """Fields that make the slug other rows refer to: fixed after the first save."""
    list_per_page = 100
    actions: ClassVar = ("mark_checked", "retire")
    formats: ClassVar = (BoundedCSV, BoundedXLSX)
    history_list_display: ClassVar = ("origin",)
    import_template_name = "hardware/import.html"
    save_on_top = True

    def import_action(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """The dry run, as a table of what would be added, changed, left alone and refused."""
        answer: TemplateResponse = super().import_action(request, **kwargs)
        context = getattr(answer, "context_data", None) or {}
        if context.get("result"):
            context["report"] = report_of(context["result"], self.model.table)
        return answer

    def add_data_read_fail_error_to_form(self, form: Any, e: Exception) -> None:
        """A file that was not read says why and what to do, where we know it."""
        if isinstance(e, UploadError):
            form.add_error("import_file", str(e))
        else:
            super().add_data_read_fail_error_to_form(form, e)

    def process_result(self, result: Any, request: HttpRequest) -> HttpResponse:
        """After a confirmed import: how many saved plans used the old values."""
        rows = [row.original for row in result.rows if row.import_type == "update" and row.original is not None]
        said = [sentence for _, sentence in catalog_edited.send(sender=CatalogRevision, rows=rows) if sentence]
        if said:
            messages.info(request, " ".join([f"Revision {current_revision()}.", *said]))
        answer: HttpResponse = super().process_result(result, request)
        return answer

    def history_form_view(
        self, request: HttpRequest, object_id: str, version_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """A row set back to an earlier version is an edit like any other, and a new revision."""
        answer: HttpResponse = super().history_form_view(request, object_id, version_id, extra_context)
        if request.method == "POST" and answer.status_code == HTTPStatus.FOUND:
            row = self.model._default_manager.get(pk=object_id)
            announce_change(request, f"{row._meta.verbose_name} {row} set back to an earlier version", [row])
        return answer

    def view_on_site(self, obj: Any) -> str | None:
        """The public page of the row, where it has one."""
        return public_page(obj)

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
            announce_change(request, f"{form.instance._meta.verbose_name} {form.instance} saved", [form.instance])

    def delete_model(self, request: HttpRequest, obj: CatalogRow) -> None:
        name = str(obj)
        super().delete_model(request, obj)
        announce_change(request, f"{name} deleted", [obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[CatalogRow]) -> None:
        rows = list(queryset)
        super().delete_queryset(request, queryset)
        announce_change(request, f"{len(rows)} {queryset.model._meta.verbose_name_plural} deleted", rows)

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
        announce_change(request, f"{len(rows)} {queryset.model._meta.verbose_name_plural} {what}", rows)


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
