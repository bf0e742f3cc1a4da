"""The one shape of an error: RFC 9457 problem details, bounded in size whatever the client sent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.http import HttpResponse

from planner.errors import Fault, PlannerError

MEDIA_TYPE = "application/problem+json"
MAX_FAULTS = 100
MAX_DETAIL = 400


def problem_response(error: PlannerError) -> HttpResponse:
    """The answer of an error of ours."""
    return problem(
        status=error.http_status,
        code=error.code,
        title=error.title,
        detail=error.detail,
        faults=error.faults,
        retry_after_seconds=error.retry_after_seconds,
    )


def problem(
    *,
    status: int,
    code: str,
    title: str,
    detail: str,
    faults: Iterable[Fault] = (),
    retry_after_seconds: float | None = None,
) -> HttpResponse:
    """A problem document as an HTTP answer; `Retry-After` in whole seconds, rounded up."""
    body = problem_document(status=status, code=code, title=title, detail=detail, faults=faults)
    response = HttpResponse(json.dumps(body), status=status, content_type=MEDIA_TYPE)
    response["Cache-Control"] = "no-store"
    if retry_after_seconds is not None:
        response["Retry-After"] = str(max(1, -int(-retry_after_seconds // 1)))
    return response


def problem_document(
    *, status: int, code: str, title: str, detail: str, faults: Iterable[Fault] = ()
) -> dict[str, Any]:
    found = list(faults)
    body: dict[str, Any] = {
        "type": f"urn:shardplan:problem:{code}",
        "title": title,
        "status": status,
        "detail": _short(detail),
        "errors": [
            {"pointer": fault.pointer, "code": fault.code, "detail": _short(fault.detail)}
            for fault in found[:MAX_FAULTS]
        ],
    }
    if len(found) > MAX_FAULTS:
        body["errors_left_out"] = len(found) - MAX_FAULTS
    return body


def _short(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 1]}…"
