"""What log lines say of who asked and for which job: an address that a client cannot choose, and the job's own id."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import structlog
from django.dispatch import receiver
from django.http import HttpRequest
from django_structlog.signals import bind_extra_request_metadata

from planner.ops.guesses import address_of


@receiver(bind_extra_request_metadata)
def bind_address(request: HttpRequest, **_: Any) -> None:
    """The peer's address, or the one that the operator's proxy wrote down: the package would believe any header."""
    structlog.contextvars.bind_contextvars(ip=address_of(request))


def bind_job(row: str) -> UUID:
    """Name the plan, validation or message that every further line of this task is about; its id."""
    structlog.contextvars.bind_contextvars(job=row)
    return UUID(row)
