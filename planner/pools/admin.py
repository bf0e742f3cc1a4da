"""Pools in the admin: every team's, with history; a save is checked like a request and raises the row's version."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest
from simple_history.admin import SimpleHistoryAdmin

from planner.pools.models import Pool


@admin.register(Pool)
class PoolAdmin(SimpleHistoryAdmin):  # type: ignore[misc]  # untyped
    list_display = ("__str__", "slug", "team", "accelerator", "node_type", "count", "usd_per_device_hour", "changed_at")
    list_filter = ("team", "accelerator")
    list_select_related = ("team",)
    search_fields = ("slug", "name", "accelerator", "node_type")
    readonly_fields = ("version", "created_at", "changed_at")
    history_list_display: ClassVar = ("count", "usd_per_device_hour")
    fieldsets = (
        ("Identity", {"fields": (("team", "slug"), "name")}),
        ("Devices", {"fields": (("accelerator", "node_type"), ("count", "usd_per_device_hour"))}),
        ("Changed", {"fields": (("version", "created_at", "changed_at"),)}),
    )

    def save_model(self, request: HttpRequest, obj: Pool, form: Any, change: bool) -> None:
        # Whoever read the row before this save must notice: the API's ETag is made of the version.
        obj.version += 1 if change else 0
        super().save_model(request, obj, form, change)
