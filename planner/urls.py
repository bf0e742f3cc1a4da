"""Every address of the service."""

from pathlib import Path

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from planner import health

HERE = Path(__file__).parent

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("admin/", admin.site.urls),
]
if (HERE / "api" / "urls.py").exists():
    urlpatterns.append(path("api/v1/", include("planner.api.urls")))
if (HERE / "web" / "urls.py").exists():
    urlpatterns.append(path("", include("planner.web.urls")))

handler400 = "planner.api.handler.bad_request"
handler403 = "planner.api.handler.permission_denied"
handler404 = "planner.api.handler.page_not_found"
handler500 = "planner.api.handler.server_error"
