"""Validation requests that several tests start from."""

from __future__ import annotations

from typing import Any

from hardware.records import catalog_from_csv
from planner.requests import RequestContext
from planner.validation.cases import Case, read_case
from planner.validation.shipped import request


def _no_model(text: str) -> Any:
    raise KeyError(text)


CONTEXT = RequestContext(catalog=catalog_from_csv(), find_model=_no_model, pools={})
IMPORT = {
    "kind": "import",
    "request": request("fsdp2", 3, 8),
    "measured": {"peak_allocated_bytes": 40_000_000_000, "step_seconds": 2.5, "environment": {"torch": "2.13.0"}},
}


def case(payload: object) -> Case:
    return read_case(payload, CONTEXT, lambda model: None)
