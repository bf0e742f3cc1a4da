"""Request headers that steer an answer."""

from __future__ import annotations

import re

from django.conf import settings

from planner.errors import InvalidHeader
from planner.ops.versions import MAX_HEADER

_PREFERENCES = 16


def wait_seconds(prefer: str | None) -> int | None:
    """Seconds of `Prefer: wait=N` (RFC 7240), at most what the service is set to; None where it is not asked for.

    The answer's `Preference-Applied` says how long the service was ready to wait.
    """
    for preference in (prefer or "").split(",")[:_PREFERENCES]:
        name, _, value = preference.strip().partition("=")
        if name.strip().lower() != "wait":
            continue
        text = value.strip().strip('"')
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise InvalidHeader("Prefer: wait= takes whole seconds, as in wait=30")
        return min(int(text), settings.PLAN_WAIT_MAX_SECONDS)
    return None


def tag_seen(if_none_match: str | None, tag: str) -> bool:
    """Whether the client has what `tag` stands for (RFC 9110 §13.1.2); proxies that compress make tags weak."""
    seen = {part.strip().removeprefix("W/") for part in (if_none_match or "")[:MAX_HEADER].split(",")}
    return tag in seen or "*" in seen
