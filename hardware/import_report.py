"""A dry run for people: what would be added, changed from what to what, left alone, and refused with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hardware.columns import Table

HEADER_LINES = 1


@dataclass(frozen=True)
class Change:
    """One value that would differ."""

    column: str
    old: str
    new: str


@dataclass(frozen=True)
class Line:
    """One line of the file: its number there, the row it stands for, and what happens to it."""

    number: int
    name: str
    changes: tuple[Change, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass
class Report:
    """A whole file."""

    added: list[Line] = field(default_factory=list)
    changed: list[Line] = field(default_factory=list)
    refused: list[Line] = field(default_factory=list)
    unchanged: int = 0

    @property
    def summary(self) -> str:
        """The counts in one sentence: what a confirmation would do."""
        counts = (
            f"{len(self.added)} added, {len(self.changed)} changed, {self.unchanged} unchanged, "
            f"{len(self.refused)} refused"
        )
        return f"{counts}. Nothing is written while a line is refused." if self.refused else f"{counts}."


def report_of(result: Any, table: Table) -> Report:
    """Read the result of a dry run of django-import-export."""
    report = Report()
    refused = {row.number: row for row in (*result.invalid_rows, *result.error_rows)}
    for error in result.base_errors:
        report.refused.append(Line(0, "the file", reasons=(str(error.error),)))
    for number, row in refused.items():
        report.refused.append(Line(number + HEADER_LINES, _name(row), reasons=_reasons(row)))
    for place, row in enumerate(result.rows, start=1):
        if place in refused:
            continue
        line = place + HEADER_LINES
        if row.import_type == "new":
            report.added.append(Line(line, str(row.instance)))
        elif row.import_type == "update":
            report.changed.append(Line(line, str(row.instance), _changes(row, table)))
        elif row.import_type == "skip":
            report.unchanged += 1
    report.refused.sort(key=lambda line: line.number)
    return report


def _name(row: Any) -> str:
    values = getattr(row, "values", None) or list((getattr(row, "row", None) or {}).values())
    return ", ".join(str(value) for value in list(values)[:3])


def _reasons(row: Any) -> tuple[str, ...]:
    if hasattr(row, "error_dict"):
        return tuple(f"{name}: {' '.join(map(str, messages))}" for name, messages in row.error_dict.items())
    if hasattr(row, "error"):
        return (str(getattr(row.error, "error", row.error)),)
    return tuple(str(error.error) for error in row.errors)


def _changes(row: Any, table: Table) -> tuple[Change, ...]:
    found = []
    for column in table.columns:
        old, new = (column.render(getattr(side, column.key)) for side in (row.original, row.instance))
        if old != new:
            found.append(Change(column.name, old or "nothing", new or "nothing"))
    return tuple(found)
