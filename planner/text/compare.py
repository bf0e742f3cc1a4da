"""Plans or options side by side for a terminal: the compare page's own rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.plans.comparison import Side
from planner.text.table import WIDTH, Column, table
from planner.web.compare import PAIR, compare


def render_comparison(sides: Sequence[Side], names: Mapping[str, str], width: int = WIDTH) -> str:
    """One column a side, `*` before a fact that differs; the difference of two is the second less the first."""
    pair = len(sides) == PAIR
    titles = [f"{str(side.run.pk)[:8]}.{side.rank}" for side in sides]
    columns = [Column("", essential=True), Column("FACT", essential=True)]
    columns += [Column(title, essential=True) for title in titles]
    columns += [Column("DIFFERENCE", right=True, essential=True)] * pair
    rows = [
        ["*" if line.differs else "", line.name, *line.values, *([line.difference] * pair)]
        for line in compare(sides, names)
    ]
    return table(columns, rows, width)
