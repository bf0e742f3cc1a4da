"""Models in the admin: edited like the hardware, each save a new catalog revision."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from import_export import resources
from import_export.admin import ExportMixin
from simple_history.admin import SimpleHistoryAdmin

from hardware.admin_rows import announce_change
from hardware.uploads import BoundedCSV
from planner.specs.models import ModelSpec, Origin


class ModelSpecResource(resources.ModelResource):  # type: ignore[misc]  # untyped
    class Meta:
        model = ModelSpec
        fields = ("slug", "name", "family", "exact_parameters", "published_parameters", "source", "confidence", "note")


@admin.register(ModelSpec)
class ModelSpecAdmin(ExportMixin, SimpleHistoryAdmin):  # type: ignore[misc]  # both untyped
    resource_classes: ClassVar = (ModelSpecResource,)
    formats: ClassVar = (BoundedCSV,)
    list_display = ("name", "family", "exact_parameters", "team", "confidence", "origin", "changed_at")
    list_filter = ("family", "confidence", "origin", "retired", "team")
    list_select_related = ("team",)
    search_fields = ("slug", "name", "family", "aliases")
    readonly_fields = ("origin", "changed_at")
    fieldsets = (
        ("Identity", {"fields": ("name", "slug", "family", "aliases", "team")}),
        ("Description", {"fields": ("config", "architecture")}),
        ("Parameters", {"fields": ("exact_parameters", "published_parameters", "active_parameters_per_token",
                                   "facts")}),
        ("Source", {"fields": ("source", ("source_date", "checked_date", "confidence"), "note", "retired",
                               ("origin", "changed_at"))}),
    )  # fmt: skip

    def save_model(self, request: HttpRequest, obj: ModelSpec, form: Any, change: bool) -> None:
        obj.origin = Origin.EDITED
        super().save_model(request, obj, form, change)
        if not change or form.has_changed():
            announce_change(request, f"model {obj.slug} saved")

    def delete_model(self, request: HttpRequest, obj: ModelSpec) -> None:
        slug = obj.slug
        super().delete_model(request, obj)
        announce_change(request, f"model {slug} deleted")

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ModelSpec]) -> None:
        count = queryset.count()
        super().delete_queryset(request, queryset)
        announce_change(request, f"{count} models deleted")
