"""The address of the calculator for a given estimate request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from planner.web.form import payload_from, start_from
from planner.web.form_rows import ESTIMATE_ROWS
from planner.web.words import Json


class _Values(dict[str, str]):
    """Form values as a posted form gives them."""

    def getlist(self, key: str) -> list[str]:
        return [self[key]] if key in self else []


def calculator_query(estimate: Json) -> str | None:
    """A query string that fills the calculator in, or None where its form would lose a part of the request."""
    values = _Values(
        {name: value for name, value in start_from(estimate, ESTIMATE_ROWS).items() if isinstance(value, str)}
    )
    again, unread = payload_from(values, ESTIMATE_ROWS)
    if unread or _meant(again) != _meant(estimate):
        return None
    return urlencode(values)


def _meant(value: Any) -> Any:
    """A request without the members that say nothing: null, empty, or the word none."""
    if not isinstance(value, Mapping):
        return value
    kept = {name: _meant(inner) for name, inner in value.items()}
    return {name: inner for name, inner in kept.items() if inner not in (None, "none", {}, [], True)}
