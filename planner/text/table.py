"""Tables of plain ASCII, 100 columns wide, for terminals, mails and logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 100

_ASCII = str.maketrans(
    {
        "\u00a0": " ",  # no-break space
        "\u2212": "-",  # minus
        "\u2013": "-",
        "\u00d7": "x",
        "\u00b7": ",",
        "\u2026": "...",
        "\u2019": "'",
    }
)


def ascii_text(text: str) -> str:
    """The pages' typography in ASCII; what has no counterpart is written as an escape, never dropped."""
    return text.replace(" \u00b7 ", ", ").translate(_ASCII).encode("ascii", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Column:
    """`essential` columns stay on a narrow terminal."""

    title: str
    right: bool = False
    essential: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int = WIDTH) -> str:
    """Columns as wide as their widest cell, closer together or only the essential ones where the terminal is narrow."""
    cells = [[ascii_text(cell) for cell in row] for row in rows]
    every = list(range(len(columns)))
    essential = [index for index in every if columns[index].essential]
    for chosen, gap in ((every, "  "), (every, " "), (essential, "  ")):
        lines = _lines(columns, cells, chosen, gap)
        if max(map(len, lines)) <= width:
            break
    return "\n".join(lines)


def _lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], chosen: Sequence[int], gap: str) -> list[str]:
    everything = [[column.title for column in columns], *rows]
    widths = {index: max(len(row[index]) for row in everything) for index in chosen}
    return [
        gap.join(
            row[index].rjust(widths[index]) if columns[index].right else row[index].ljust(widths[index])
            for index in chosen
        ).rstrip()
        for row in everything
    ]
