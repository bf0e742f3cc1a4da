"""The address of the calculator for a given estimate request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict

from planner.web.form import payload_from, start_from
from planner.web.form_rows import ESTIMATE_ROWS
from planner.web.words import Json

_SILENT: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("dp_replicate", "tp", "cp", "pp", "vpp", "ep"), (1,)),
    "sequence_parallel": (True,),
    "schedule": ("1f1b",),
    "packed": (False,),
    "micro_batch_size": (1,),
    "commitment": ("",),
}
"""Values that say no more than leaving the member out."""


def calculator_query(estimate: Json) -> str | None:
    """A query string that fills the calculator in, or None where its form would lose a part of the request."""
    values = {name: value for name, value in start_from(estimate, ESTIMATE_ROWS).items() if isinstance(value, str)}
    query = urlencode(values)
    again, unread = payload_from(QueryDict(query), ESTIMATE_ROWS)
    if unread or _meant(again) != _meant(estimate):
        return None
    return query


def _meant(request: Json) -> dict[str, Any]:
    """A request without the members that only repeat the contract's defaults."""
    layout = request.get("parallelism") or {}
    silent = dict(_SILENT) | {"etp": (layout.get("tp") or 1,)}
    return _said(request, silent)


def _said(value: Mapping[str, Any], silent: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    kept = {name: _said(inner, silent) if isinstance(inner, Mapping) else inner for name, inner in value.items()}
    return {
        name: inner
        for name, inner in kept.items()
        if inner not in (None, "none", "", {}, []) and inner not in silent.get(name, ())
    }
