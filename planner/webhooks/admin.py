"""Webhooks in the admin: who is told, and how each telling went. Deliveries are facts and cannot be edited."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest
from simple_history.admin import SimpleHistoryAdmin

from planner.webhooks.models import Webhook, WebhookDelivery


class DeliveryInline(admin.TabularInline):  # type: ignore[type-arg]  # generic in the stubs only
    model = WebhookDelivery
    extra = 0
    can_delete = False
    fields: ClassVar = ("plan", "status", "attempts", "last_status", "last_error", "created_at", "finished_at")
    readonly_fields: ClassVar = fields
    ordering: ClassVar = ("-created_at",)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Webhook)
class WebhookAdmin(SimpleHistoryAdmin):  # type: ignore[misc]  # untyped
    """The address is set through the API, which resolves and refuses private ones; here it is only switched off."""

    list_display = ("slug", "team", "url", "active", "changed_at")
    list_filter = ("active", "team")
    list_select_related = ("team",)
    search_fields = ("slug", "url")
    readonly_fields = ("team", "slug", "url", "version", "created_at", "changed_at")
    inlines = (DeliveryInline,)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Webhook, form: Any, change: bool) -> None:
        obj.version += 1
        super().save_model(request, obj, form, change)
