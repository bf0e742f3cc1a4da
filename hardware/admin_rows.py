"""What every page of the catalog's admin does: edits are marked and make a revision, imports run dry first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from http import HTTPStatus
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from import_export.admin import ImportExportMixin
from simple_history.admin import SimpleHistoryAdmin

from hardware.admin_filters import FRESH_DAYS
from hardware.choices import Origin
from hardware.import_report import report_of
from hardware.models import CatalogRevision
from hardware.models.catalog_row import CatalogRow
from hardware.revision import catalog_changed, current_revision
from hardware.signals import catalog_edited
from hardware.uploads import BoundedCSV, BoundedXLSX, UploadError

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
