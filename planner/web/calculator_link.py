"""The address of the calculator for a given estimate request."""

from __future__ import annotations

from urllib.parse import urlencode

from planner.web.form import start_from
from planner.web.form_rows import ESTIMATE_ROWS
from planner.web.words import Json

LONGEST = 8_000
"""Characters of an address that every server and browser takes."""


def calculator_query(estimate: Json) -> str | None:
    """A query string that fills the calculator in; None where it would be too long for an address."""
    if not estimate:
        return None
    values = {name: value for name, value in start_from(estimate, ESTIMATE_ROWS).items() if isinstance(value, str)}
    query = urlencode(values)
    return query if len(query) <= LONGEST else None
