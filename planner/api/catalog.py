"""Read-only doors to the catalog: lists with filters, and single rows by slug. The rows are those that plans see."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import urlencode

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from planner.api.answers import ref
from planner.api.base import ApiView
from planner.api.listings import Listing, value_of
from planner.api.pages import Pages, check_query
from planner.api.schema import PAGE_PARAMETERS
from planner.errors import InvalidQuery, NotFound

MAX_CURSOR = 2_000
MAX_NUMBER_DIGITS = 18


class ListingView(ApiView):
    listing: ClassVar[Listing]

    def get(self, request: Request) -> Response:
        listing = self.listing
        check_query(request, [*listing.filters, *(f"min_{name}" for name in listing.at_least)])
        rows = sorted(self._matching(request), key=listing.key_of)
        start = _start(request, [listing.key_of(row) for row in rows], len(listing.key))
        size = Pages().get_page_size(request)
        shown = rows[start : start + size]
        following = _link(request, listing.key_of(shown[-1])) if start + size < len(rows) else None
        return Response({"results": [listing.show(row) for row in shown], "next": following, "previous": None})

    def _matching(self, request: Request) -> Iterable[Any]:
        listing, query = self.listing, request.query_params
        equal = {name: query[name].lower() for name in listing.filters if name in query}
        least = {
            name: _whole(f"min_{name}", query[f"min_{name}"]) for name in listing.at_least if f"min_{name}" in query
        }
        for row in listing.rows(self.actor.team):
            if any(str(value_of(row, name)).lower() != value for name, value in equal.items()):
                continue
            if any((value_of(row, name) or -1) < value for name, value in least.items()):
                continue
            yield row


class RowView(ApiView):
    listing: ClassVar[Listing]

    def get(self, request: Request, slug: str) -> Response:
        check_query(request, [])
        for row in self.listing.rows(self.actor.team):
            if self.listing.key_of(row) == (slug.lower(),):
                return Response(self.listing.show(row, whole=True))
        raise NotFound(f"there is no such row under {self.listing.name}")


def listing_view(listing: Listing) -> type[ListingView]:
    """The list door of one table."""
    parameters = [
        *PAGE_PARAMETERS,
        *(OpenApiParameter(name, OpenApiTypes.STR) for name in listing.filters),
        *(OpenApiParameter(f"min_{name}", {"type": "integer", "minimum": 0}) for name in listing.at_least),
    ]
    operation = f"{listing.name.replace('-', '_')}_list"
    view = type(f"{listing.title}ListView", (ListingView,), {"listing": listing, "__doc__": None})
    responses = {200: ref(f"{listing.title}List")}
    described = extend_schema(
        operation_id=operation,
        description=f"The rows of {listing.name} that the team sees, filtered and in pages.",
        parameters=parameters,
        responses=responses,
    )
    return extend_schema_view(get=described)(view)


def row_view(listing: Listing) -> type[RowView]:
    """The door to one row of one table."""
    view = type(f"{listing.title}View", (RowView,), {"listing": listing, "__doc__": None})
    responses = {200: ref(listing.title)}
    described = extend_schema(
        operation_id=f"{listing.name.replace('-', '_')}_row",
        description=f"One row of {listing.name}, whole.",
        responses=responses,
    )
    return extend_schema_view(get=described)(view)


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_DIGITS):
        raise InvalidQuery(f"{name} takes a whole number")
    return int(text)


def _link(request: Request, key: tuple[str, ...]) -> str:
    cursor = base64.urlsafe_b64encode(json.dumps(key).encode()).decode()
    query = {name: value for name, value in request.query_params.items() if name != "cursor"}
    return request.build_absolute_uri(f"{request.path}?{urlencode({**query, 'cursor': cursor})}")


def _start(request: Request, keys: list[tuple[str, ...]], parts: int) -> int:
    """The first row after the cursor's key: rows that come or go between two pages shift nothing."""
    text = request.query_params.get("cursor")
    if text is None:
        return 0
    try:
        if len(text) > MAX_CURSOR:
            raise ValueError
        key = json.loads(base64.urlsafe_b64decode(text.encode("ascii")))
        if not (isinstance(key, list) and len(key) == parts and all(isinstance(part, str) for part in key)):
            raise ValueError
    except (ValueError, binascii.Error, RecursionError):
        raise InvalidQuery("the cursor is not one of ours; start again without it") from None
    return bisect_right(keys, tuple(key))
