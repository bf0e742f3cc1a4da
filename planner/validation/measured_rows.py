"""Measured steps in a file, one JSON object a line, gzipped or not: read whole, every fault named by its line."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PARTS = ("fit", "report")
PUBLISHED = Path(__file__).with_name("data") / "measured_steps.jsonl.gz"
"""Steps that others measured and published, each written as a request: what the shipped constants were fitted on
(part fit) and are judged by (part report)."""
MEASURES = ("step_seconds", "tokens_per_second_per_device")
_GZIP = b"\x1f\x8b"


class MeasuredRowsError(ValueError):
    """A file that cannot be read; `faults` names every bad line."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


def read_measured_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a file: request, expect, source, part. Raises MeasuredRowsError."""
    try:
        content = file.read_bytes()
        text = gzip.decompress(content) if content.startswith(_GZIP) else content
        lines = text.decode("utf-8").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
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
