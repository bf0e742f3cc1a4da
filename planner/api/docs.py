"""The frozen OpenAPI document, and a page to try it that needs nothing from another server."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

SCHEMA_FILE = Path(__file__).with_name("schema.yaml")


@cache
def _document() -> bytes:
    return SCHEMA_FILE.read_bytes()


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    """The document as it was reviewed, not as the code of the moment would describe itself."""
    return HttpResponse(_document(), content_type="application/yaml; charset=utf-8")


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Swagger UI over that document."""
    return render(request, "api/docs.html")
