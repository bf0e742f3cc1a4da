"""What comes before every view: the id of the request, and bodies that are refused unread."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse

from planner.api.handler import API_PREFIX
from planner.api.problems import problem_response
from planner.documents import MAX_BODY_BYTES
from planner.errors import PlannerError, TooLarge, UnsupportedMediaType

DRAIN_BYTES = 16 << 20
"""A client that is still sending may never see an answer: so much of a refused body is read and thrown away."""
CHUNK_BYTES = 1 << 16
REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class BodyLimitMiddleware:
    """Refuses bodies under /api/ by their headers alone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        refusal = _refusal(request) if request.path_info.startswith(API_PREFIX) else None
        if refusal is None:
            return self.get_response(request)
        _drain(request)
        return problem_response(refusal)


def _refusal(request: HttpRequest) -> PlannerError | None:
    length = request.META.get("CONTENT_LENGTH") or "0"
    if length.isdigit() and int(length[:20]) > MAX_BODY_BYTES:
        return TooLarge(f"the body has {length[:20]} bytes; at most {MAX_BODY_BYTES:,} are read")
    if request.META.get("HTTP_CONTENT_ENCODING", "identity") not in ("identity", ""):
        return UnsupportedMediaType("compressed bodies are not read; send the JSON as it is")
    return None


def _drain(request: HttpRequest) -> None:
    left = DRAIN_BYTES
    while left > 0 and (chunk := request.read(CHUNK_BYTES)):
        left -= len(chunk)


class RequestIdMiddleware:
    """Every answer names its request; a caller's own id is kept where it is short and plain."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = given if REQUEST_ID.match(given) else str(uuid4())
        # Where the logging middleware looks for it: log lines and answer then carry the same id.
        request.META["HTTP_X_REQUEST_ID"] = request_id
        response = self.get_response(request)
        response["X-Request-ID"] = request_id
        return response


class NulMiddleware:
    """400 for a NUL in a path, a query or a form: PostgreSQL refuses it in any text, whoever looks one up or stores it.

    Under /api/ paths lead nowhere then, queries are checked where they are read, and bodies by their reader.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: object) -> None:
        """After the check against forged forms, which reads them anyway."""
        if request.path_info.startswith(API_PREFIX):
            return
        sent = (request.GET, request.POST)
        texts = [text for fields in sent for name, values in fields.lists() for text in (name, *values)]
        if any("\0" in str(text) for text in (request.path_info, *texts)):
            raise BadRequest("the address or the form holds a NUL")
