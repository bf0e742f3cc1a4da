"""Keys that the admin is asked for, before Django's own views hand them to the database's field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import BadRequest, ValidationError
from django.http import Http404, HttpRequest, HttpResponse

LARGEST_KEY = (1 << 63) - 1
"""Beyond it SQLite's driver raises."""


class AdminKeyMiddleware:
    """Rows asked for by what is no key of their table: 404 in an address, 400 in a selection; unread both raise."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, _: object, given: dict[str, Any]) -> None:
        """Django leaves the table's admin on each of its views."""
        owner = getattr(view, "model_admin", None)
        if owner is None:
            return
        if "object_id" in given and not _is_key(owner, unquote(given["object_id"])):
            raise Http404
        if not all(_is_key(owner, chosen) for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME)):
            raise BadRequest("the selection holds what is no key of this table")


def _is_key(owner: ModelAdmin[Any], text: str) -> bool:
    try:
        key = owner.model._meta.pk.to_python(text)
    except ValidationError:
        return False
    return text != "" and not (isinstance(key, int) and abs(key) > LARGEST_KEY)
