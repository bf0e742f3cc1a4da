"""Measures every row of the tables anew: the full grid, about half an hour on two cores.

    python -m tests.reallib.activations.record             says which rows differ from the tables
    python -m tests.reallib.activations.record --write     writes what was measured into them

A new case is a row with empty bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.accounting.memory.measured import PEAKS, SAVED, name_of, read, write
from tests.reallib.activations.running import measured

WORKERS: dict[Path, str] = {SAVED: "worker", PEAKS: "sharded"}
MEASURED = ("saved_bytes", "copy_bytes", "peak_bytes")


def differing(path: Path, *, keep: bool) -> list[str]:
    """What the rows of a table say now, where that is not what stands there."""
    rows = read(path)
    answers = measured(WORKERS[path], rows)
    found = [_said(row, answer) for row, answer in zip(rows, answers, strict=True) if _bytes(row) != _bytes(answer)]
    broken = [answer for answer in answers if "error" in answer]
    if keep and not broken:
        write(path, answers)
    return found


def _bytes(row: dict[str, Any]) -> list[int]:
    return [row[name] for name in MEASURED if name in row]


def _said(row: dict[str, Any], answer: dict[str, Any]) -> str:
    return f"{name_of(row)}: {answer.get('error') or _bytes(answer)}, the table says {_bytes(row)}"


def main() -> int:
    found = [line for path in WORKERS for line in differing(path, keep="--write" in sys.argv)]
    print("\n".join(found) or "every row as the tables say")
    return 1 if found and "--write" not in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
