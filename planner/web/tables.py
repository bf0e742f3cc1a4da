"""Tables of the lists: columns that can be sorted and chosen through the address, cells ready to print."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

from django.http import QueryDict

from hardware.uploads import safe_cell


@dataclass(frozen=True)
class Cell:
    """One value: its text, a muted second line, where it leads, the tone of a tag, and what it sorts by."""

    text: str
    order: Any = None
    small: str = ""
    href: str = ""
    tone: str = ""
    spark: str = ""
    """Points of a sparkline in a 100 by 24 box."""
    explain: str = ""
    """Address of the number's explanation."""

    @property
    def sorts_by(self) -> Any:
        """The unrounded value where there is one."""
        return self.text if self.order is None else self.order


UNKNOWN = object()
"""Stands for an unknown value in `order`: always last."""


@dataclass(frozen=True)
class Column:
    """A column head; an optional one shows only where the reader asked for it."""

    key: str
    label: str
    unit: str = ""
    right: bool = False
    optional: bool = False
    tight: bool = False
    """Whether its cells stay on one line on wide pages."""
    head: bool = False
    """Whether it names the row; the first column does where none says so."""
    state: str = ""
    href: str = ""
    shown: bool = True


Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Line:
    """One row as it is shown; `anchor` is its id on the page, `current` marks the one the page is about."""

    cells: tuple[tuple[Column, Cell], ...]
    anchor: str = ""
    current: bool = False


@dataclass(frozen=True)
class Table:
    """What a list shows: only the columns that are shown, in their order."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Line, ...]
    every: tuple[Column, ...] = ()
    """All columns, for the choice."""
    query: str = ""
    """The filters as they are, without the choice of columns: hidden fields of the choice's form."""
    kept: tuple[tuple[str, str], ...] = field(default=())


def table(
    name: str, columns: Sequence[Column], rows: Iterable[Row], asked: QueryDict, caption: str, *, anchor: str = ""
) -> Table:
    """Sort by `?sort=`, show `?columns=`; an unknown word changes nothing. `anchor` is where a sorted page opens."""
    wanted = asked.get("sort", "")
    key, backwards = wanted.removeprefix("-"), wanted.startswith("-")
    known = {column.key for column in columns}
    chosen = [word for word in asked.get("columns", "").replace("+", " ").replace(",", " ").split() if word in known]
    chosen = chosen or [word for word in asked.getlist("column") if word in known]
    ordered = sort_rows(list(rows), key, backwards=backwards) if key in known else list(rows)
    named = next((column for column in columns if column.head), columns[0])
    columns = [replace(column, head=column is named) for column in columns]
    every = tuple(_head(column, asked, key, backwards, chosen) for column in columns)
    every = tuple(replace(column, href=f"{column.href}#{anchor}") for column in every) if anchor else every
    shown = tuple(column for column in every if column.shown)
    return Table(
        name=name,
        caption=caption,
        columns=shown,
        rows=tuple(Line(tuple((column, row[column.key]) for column in shown)) for row in ordered),
        every=every,
        query=asked.urlencode(),
        kept=tuple(
            (name, value)
            for name, value in asked.items()
            if name not in ("columns", "column") and isinstance(value, str)
        ),
    )


def _head(column: Column, asked: QueryDict, key: str, backwards: bool, chosen: list[str]) -> Column:
    state = ("descending" if backwards else "ascending") if column.key == key else ""
    query = asked.copy()
    query["sort"] = f"-{column.key}" if state == "ascending" else column.key
    shown = column.head or (column.key in chosen if chosen else not column.optional)
    return replace(column, state=state, href=f"?{query.urlencode()}", shown=shown)


def sort_rows(rows: list[Row], key: str, *, backwards: bool) -> list[Row]:
    """Rows by one column, unknown values last in both directions."""
    known = [row for row in rows if row[key].sorts_by is not UNKNOWN]
    known.sort(key=lambda row: row[key].sorts_by, reverse=backwards)
    return known + [row for row in rows if row[key].sorts_by is UNKNOWN]


def number(value: float | None, text: str, **more: Any) -> Cell:
    """A cell that sorts by its number; None sorts last."""
    return Cell(text, UNKNOWN if value is None else value, **more)


def csv_text(shown: Table) -> str:
    """The table as CSV. A text that a spreadsheet would run as a formula is quoted with an apostrophe."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([" ".join(filter(None, (column.label, column.unit))) for column in shown.columns])
    for row in shown.rows:
        writer.writerow([safe_cell(_value(cell)) for _, cell in row.cells])
    return out.getvalue()


def _value(cell: Cell) -> str:
    if cell.order is UNKNOWN:
        return ""
    if isinstance(cell.order, bool) or not isinstance(cell.order, (int, float)):
        return cell.text.replace("\u00a0", " ")
    return repr(cell.order)
