"""Measured steps in a file, one JSON object a line: read whole, every fault named by its line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PARTS = ("fit", "report")
MEASURES = ("step_seconds", "tokens_per_second_per_device")


class MeasuredRowsError(ValueError):
    """A file that cannot be read; `faults` names every bad line."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


def read_measured_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a file: request, expect, source, part. Raises MeasuredRowsError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MeasuredRowsError([f"{file} cannot be read: {error}"]) from error
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            faults.append(f"line {number} is not JSON: {error}")
            continue
        found = [f"line {number}: {fault}" for fault in _faults(row)]
        faults += found
        if not found:
            rows.append(row)
    if faults:
        raise MeasuredRowsError(faults)
    return rows


def _faults(row: Any) -> Iterator[str]:
    if not isinstance(row, dict):
        yield "a row is an object with request, expect, source and part"
        return
    if not isinstance(row.get("request"), dict) or not isinstance(row["request"].get("hardware"), dict):
        yield "request is an estimate request, with its hardware"
    if not isinstance(row.get("source"), str) or not row["source"]:
        yield "source names where the step was measured"
    if row.get("part") not in PARTS:
        yield f"part is {row.get('part')!r}: give fit or report"
    expected = row.get("expect")
    known = [expected[name] for name in MEASURES if name in expected] if isinstance(expected, dict) else []
    if not known:
        yield f"expect has neither {' nor '.join(MEASURES)}"
    elif not all(_positive(value) for value in known):
        yield f"expect is {known[0]!r}: a measured step is a number above 0"


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
