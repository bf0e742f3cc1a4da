"""Times of day as answers write them."""

from __future__ import annotations

from datetime import datetime


def moment(value: datetime | None) -> str | None:
    """ISO 8601 in UTC with a Z; None where it has not happened."""
    return None if value is None else value.isoformat().replace("+00:00", "Z")
