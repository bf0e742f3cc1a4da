"""When a fault of the database is no fault of a request or a job: it is away, or not yet of this release."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, ProgrammingError

NOT_MIGRATED = frozenset({"42P01", "42703"})
"""PostgreSQL's undefined table and undefined column; SQLite calls both an OperationalError."""


def is_away(error: BaseException | None) -> bool:
    """True where the same thing asked again, later, may well be answered."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return True
    return isinstance(error, ProgrammingError) and getattr(error.__cause__, "sqlstate", None) in NOT_MIGRATED
