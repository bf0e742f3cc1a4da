"""Reading and writing the tables of measured bytes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")
SAVED = DATA / "saved_tensors.csv"
PEAKS = DATA / "sharded_peaks.csv"
FIELDS: Mapping[Path, tuple[str, ...]] = {
    SAVED: (
        "model",
        "sequence",
        "micro_batch",
        "recipe",
        "attention",
        "recompute",
        "dropout",
        "targets",
        "rank",
        "adapter_dtype",
        "saved_bytes",
        "copy_bytes",
    ),
    PEAKS: (
        "model",
        "layers",
        "ranks",
        "sequence",
        "micro_batch",
        "reshard",
        "recompute",
        "attention",
        "peak_bytes",
    ),
}
_WORDS = frozenset({"model", "recipe", "attention", "recompute", "adapter_dtype"})


def read(path: Path) -> list[dict[str, Any]]:
    """Every row as a case with what was measured."""
    with path.open(newline="") as source:
        return [{name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(source)]


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """The rows in the table's own order of columns."""
    with path.open("w", newline="") as target:
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(FIELDS[path])
        writer.writerows([_text(row.get(name, "")) for name in FIELDS[path]] for row in rows)


def name_of(case: Mapping[str, Any]) -> str:
    """A case in one line, for people."""
    measured = ("saved_bytes", "copy_bytes", "peak_bytes")
    return " ".join(_text(value) for name, value in case.items() if name not in measured and value not in ("", 0.0))


def _value(name: str, text: str) -> Any:
    if name in _WORDS:
        return text
    if name == "targets":
        return text.split() if text and text != "all-linear" else text
    if name == "reshard":
        return text == "true"
    return float(text) if name == "dropout" else int(text or 0)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(value) if isinstance(value, list) else str(value)
