"""Cursor pagination that refuses a page size it would not keep to, and query parameters that nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import QuerySet
from django.utils.timezone import is_aware
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from planner.errors import InvalidQuery

MAX_DIGITS = 4
MOMENTS = ("created_at", "created")
"""Columns of time that lists are ordered by."""


class Pages(CursorPagination):
    page_size = 50
    max_page_size = 500
    page_size_query_param = "page_size"

    def get_page_size(self, request: Request) -> int:
        text = request.query_params.get("page_size")
        if text is None:
            return self.page_size
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and 1 <= int(text) <= self.max_page_size):
            raise InvalidQuery(f"page_size takes a whole number from 1 to {self.max_page_size}")
        return int(text)

    def _is_ours(self, position: str) -> bool:
        """Whether a position can be one that we gave: a moment with its offset where the list is ordered by time."""
        # PostgreSQL refuses a NUL in a text and SQLite compares it: neither is a value of ours.
        if not position.isprintable():
            return False
        return self.ordering[0].lstrip("-") not in MOMENTS or is_aware(datetime.fromisoformat(position))

    def decode_cursor(self, request: Request) -> Any:
        text = request.query_params.get(self.cursor_query_param)
        cursor = super().decode_cursor(request)
        if cursor is None:
            return None
        if not cursor.position and not cursor.offset and not cursor.reverse:
            # Base64 of anything else: the framework would show the first page again.
            raise ValueError(text)
        if cursor.position is not None and not self._is_ours(str(cursor.position)):
            raise ValueError(cursor.position)
        return cursor

    def _get_position_from_instance(self, instance: Any, ordering: Sequence[str]) -> str:
        """The framework reads a column of the row itself; lists may be ordered by one of a related row."""
        return str(attrgetter(ordering[0].lstrip("-").replace("__", "."))(instance))

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValueError, OverflowError, ValidationError, DataError):
            # The position in a cursor is a value of the ordering's column; one that we made always fits.
            raise InvalidQuery("the cursor is not one of ours; start again without it") from None

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.get_next_link(), "previous": self.get_previous_link()})


def paged(
    view: Any, request: Request, rows: QuerySet[Any], ordering: tuple[str, ...], show: Callable[[Any], Any]
) -> Response:
    """One page of `rows`; the ordering must be unique, or a cursor could skip rows that compare equal."""
    pages = Pages()
    pages.ordering = ordering
    found = pages.paginate_queryset(rows, request, view=view) or []
    return pages.get_paginated_response([show(row) for row in found])


def check_query(request: Request, known: Iterable[str]) -> None:
    """An unknown parameter is a misspelt filter: answering without it would show rows that were not asked for."""
    allowed = {*known, "page_size", "cursor"}
    unknown = sorted(set(request.query_params) - allowed)
    if unknown:
        raise InvalidQuery(f"unknown query parameter {unknown[0][:60]!r}; known are {', '.join(sorted(allowed))}")
    # PostgreSQL refuses a NUL in any text: no name and no filter of ours holds one.
    if unstorable := sorted(name for name, value in request.query_params.items() if "\0" in value):
        raise InvalidQuery(f"the query parameter {unstorable[0]!r} holds a NUL")
    repeated = sorted(name for name, values in request.query_params.lists() if len(values) > 1)
    if repeated:
        raise InvalidQuery(f"the query parameter {repeated[0]!r} stands more than once; which of its values is meant?")
