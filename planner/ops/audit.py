"""The log of deeds: who changed or ran what, written in the transaction of the deed itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from planner.documents import write_document
from planner.ops.models import AuditEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from planner.teams.models import Team

MAX_SUBJECT = 200
MAX_REQUEST_ID = 64


def audit(
    *, team: Team | None, user: User | None, action: str, subject: str, changes: Mapping[str, Any] | None = None
) -> None:
    """`changes`: field → [old, new], JSON values; a secret is never among them."""
    request_id = str(structlog.contextvars.get_contextvars().get("request_id", ""))
    AuditEvent.objects.create(
        team=team,
        user=user,
        person=user.get_username() if user is not None else "",
        action=action,
        subject=subject[:MAX_SUBJECT],
        changes=write_document(dict(changes or {})),
        request_id=request_id[:MAX_REQUEST_ID],
    )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Field → [old, new] of what differs."""
    return {name: [before.get(name), value] for name, value in after.items() if before.get(name) != value}
