"""Validation requests that several tests start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from accounting.ledger import Line as LedgerLine
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


def corrupted(lines: tuple[LedgerLine, ...], key: str, factor: float) -> tuple[LedgerLine, ...]:
    """The same lines, one of them larger by a factor."""

    def larger(amount: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def wrong(context: Any) -> Any:
            found = amount(context).items()
            return {moment: np.ceil(np.asarray(held) * factor).astype(np.int64) for moment, held in found}

        return wrong

    assert key in [line.key for line in lines]
    return tuple(replace(line, amount=larger(line.amount)) if line.key == key else line for line in lines)
