"""Every way a request can fail, as one family: who must act, a code, the HTTP status, and what else the answer says.

Clients branch on `code`, never on text. The doors (API, command line, dashboard) turn these into their own shape;
nothing here knows how an answer is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a request: where (an RFC 6901 pointer), what (a stable code), and how to put it right."""

    pointer: str
    code: str
    detail: str


class PlannerError(Exception):
    """A request that cannot be answered as asked; `faults` is empty where no place in the body is to blame."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "bad_request"
    title: ClassVar[str] = "The request cannot be answered"

    def __init__(self, detail: str, *, faults: Iterable[Fault] = (), retry_after_seconds: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.faults = tuple(faults)
        self.retry_after_seconds = retry_after_seconds

    @property
    def http_status(self) -> int:
        return self.status


class InvalidRequest(PlannerError):
    """The body has faults: 400 where it could not be read at all, 422 where it could and is wrong."""

    status = 422
    code = "invalid_request"
    title = "The request is not valid"

    def __init__(self, faults: Iterable[Fault], status: int = 422) -> None:
        found = tuple(faults)
        assert found, "an invalid request names at least one fault"
        count = "1 fault" if len(found) == 1 else f"{len(found)} faults"
        super().__init__(f"{count}; the first: {found[0].detail}", faults=found)
        self._status = status

    @property
    def http_status(self) -> int:
        return self._status


class InvalidHeader(PlannerError):
    code = "invalid_header"
    title = "A header is not valid"


class InvalidQuery(PlannerError):
    code = "invalid_query"
    title = "A query parameter is not valid"


class NotAuthenticated(PlannerError):
    status = 401
    code = "not_authenticated"
    title = "Sign in or send a token"


class Forbidden(PlannerError):
    status = 403
    code = "forbidden"
    title = "Your role or token does not allow this"


class NotFound(PlannerError):
    """Unknown, or another team's: the answer is the same."""

    status = 404
    code = "not_found"
    title = "Not found"


class PlanFinal(PlannerError):
    status = 409
    code = "plan_final"
    title = "The plan has already ended"


class Conflict(PlannerError):
    status = 409
    code = "conflict"
    title = "This does not go with what is there"


class PreconditionFailed(PlannerError):
    """Somebody changed it since it was read: writing over their change would lose it."""

    status = 412
    code = "precondition_failed"
    title = "It has changed since you read it"


class PreconditionRequired(PlannerError):
    status = 428
    code = "precondition_required"
    title = "Say which state you change"


class TooLarge(PlannerError):
    status = 413
    code = "too_large"
    title = "The request body is too large"


class UnsupportedMediaType(PlannerError):
    status = 415
    code = "unsupported_media_type"
    title = "Only application/json is read here"


class TooManyTries(PlannerError):
    """Somebody guesses: names, passwords or tokens."""

    status = 429
    code = "too_many_tries"
    title = "Too many wrong tries"

    def __init__(self, detail: str, retry_after_seconds: int) -> None:
        super().__init__(detail, retry_after_seconds=retry_after_seconds)


class Unavailable(PlannerError):
    """The database or the broker is away: nothing is wrong with the request, and a retry is right."""

    status = 503
    code = "unavailable"
    title = "The service is not available just now"


def idempotency_key_reused() -> InvalidRequest:
    """The same key came with another body: answering with the first plan would answer another question."""
    detail = "this Idempotency-Key was used with another request; send a new key, or the same body"
    return InvalidRequest([Fault("", "idempotency_key_reused", detail)])
