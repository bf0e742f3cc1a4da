"""Every exception and every unmatched address as a problem document; the site's other pages keep Django's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.views import defaults
from rest_framework import exceptions

from planner.api.problems import problem, problem_response
from planner.errors import Fault, Forbidden, InvalidRequest, NotFound, PlannerError, TooLarge, Unavailable
from planner.ops.database import is_away

log = structlog.get_logger(__name__)

API_PREFIX = "/api/"
RETRY_AFTER_SECONDS = 2


def problem_handler(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """REST framework's hook: the answer of an exception, or None for a fault of ours (handler500 then answers)."""
    known = _known(error)
    if known is not None:
        return problem_response(known)
    if isinstance(error, exceptions.APIException):
        return _framework_problem(error)
    return None


def _known(error: BaseException | None) -> PlannerError | None:
    if isinstance(error, PlannerError):
        return error
    if isinstance(error, Http404):
        return NotFound("nothing of yours is at this address")
    if isinstance(error, PermissionDenied):
        return Forbidden("this is not allowed to you")
    if isinstance(error, RequestDataTooBig):
        return TooLarge("the request body is larger than what is read here")
    if is_away(error):
        log.error("database_away", error=type(error).__name__)
        detail = "the database does not answer; nothing was changed by this request, or its key makes a retry safe"
        return Unavailable(detail, retry_after_seconds=RETRY_AFTER_SECONDS)
    if isinstance(error, exceptions.ValidationError):
        return InvalidRequest(tuple(_faults_of(error.detail, "")))
    return None


def _framework_problem(error: exceptions.APIException) -> HttpResponse:
    response = problem(
        status=error.status_code,
        code=str(error.get_codes()) if isinstance(error.detail, str) else error.default_code,
        title=HTTPStatus(error.status_code).phrase,
        detail=str(error.detail),
        retry_after_seconds=getattr(error, "wait", None),
    )
    if (challenge := getattr(error, "auth_header", None)) is not None:
        response["WWW-Authenticate"] = challenge
    return response


def _faults_of(detail: Any, pointer: str) -> Iterator[Fault]:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from _faults_of(inner, pointer if name == "non_field_errors" else f"{pointer}/{name}")
    elif isinstance(detail, list):
        for inner in detail:
            yield from _faults_of(inner, pointer)
    else:
        yield Fault(pointer, str(getattr(detail, "code", "invalid")), str(detail))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """400 before any view: an evil Host, a malformed form, a suspicious path."""
    if not request.path_info.startswith(API_PREFIX):
        return defaults.bad_request(request, exception)
    known = _known(exception)
    if known is not None:
        return problem_response(known)
    return problem(
        status=400, code="bad_request", title="Bad request", detail="the request cannot be read as it was sent"
    )


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if not request.path_info.startswith(API_PREFIX):
        return defaults.permission_denied(request, exception)
    return problem_response(Forbidden("this is not allowed to you"))


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if not request.path_info.startswith(API_PREFIX):
        return defaults.page_not_found(request, exception)
    return problem_response(NotFound("nothing of yours is at this address"))


def server_error(request: HttpRequest) -> HttpResponseBase:
    """The last resort: 503 where the database is away (in middleware, too), a 500 that tells nothing otherwise."""
    known = _known(sys.exc_info()[1])
    if isinstance(known, Unavailable):
        return problem_response(known)
    if not request.path_info.startswith(API_PREFIX):
        return defaults.server_error(request)
    detail = "a fault of ours; it is in the log under the request id of this answer"
    return problem(status=500, code="internal_error", title="Internal error", detail=detail)
