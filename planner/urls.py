"""Every address of the service."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from planner import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("api/v1/", include("planner.api.urls")),
    path("", include("planner.web.urls")),
]

handler400 = "planner.api.handler.bad_request"
handler403 = "planner.api.handler.permission_denied"
handler404 = "planner.api.handler.page_not_found"
handler500 = "planner.api.handler.server_error"
