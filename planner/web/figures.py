"""The figures and tables of a plan as files: CSV with unrounded numbers, SVG that stands alone."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

from django.template.loader import render_to_string
from django.utils.html import escape

from hardware.uploads import safe_cell
from planner.web import words
from planner.web.charts.parity import Pair
from planner.web.charts.price_history import PriceHistory
from planner.web.context import PlanPage
from planner.web.words import Json

STATIC = Path(__file__).resolve().parent.parent / "static" / "planner"
WIDTH = 1000
_THEMED = re.compile(r"light-dark\(([^,()]+),[^()]+\)")
_VARIABLE = re.compile(r"var\((--[a-z0-9-]+)(?:,[^()]*)?\)")
_DEFINED = re.compile(r"(--[a-z0-9-]+):([^;{}]+)[;}]")

Rows = Iterable[Sequence[Any]]
LINK_NUMBERS = ("bytes_per_step_per_device", "exposed_seconds", "half_speed_adds_seconds")


def ledger_rows(option: Json, explained: Json) -> Rows:
    """Every line of the ledger with its bytes in each phase."""
    phases = [slug for slug, _, _ in words.PHASES]
    yield ["bucket", "formula", "dtype", "divisor", "on_device", *(f"{slug}_bytes" for slug in phases)]
    for line in (explained.get("memory") or {}).get("lines") or ():
        sizes = [line["bytes_by_phase"].get(slug) for slug in phases]
        yield [line["bucket"], line["formula"], line["dtype"], line["divisor"], line["device"], *sizes]


def phase_rows(option: Json, explained: Json) -> Rows:
    """The peak of each phase."""
    yield ["phase", "allocated_bytes"]
    yield from ((explained.get("memory") or {}).get("by_phase") or {}).items()


def step_rows(option: Json, explained: Json) -> Rows:
    """The parts of a step."""
    yield ["part", "seconds"]
    yield from ((explained.get("time") or {}).get("parts") or {}).items()


def traffic_rows(option: Json, explained: Json) -> Rows:
    """Bytes by collective and by link, and what each link costs."""
    known = explained.get("communication") or {}
    yield ["kind", "name", "bytes_per_step_per_device", "exposed_seconds", "half_speed_adds_seconds"]
    yield from (["collective", name, size, None, None] for name, size in (known.get("by_collective") or {}).items())
    for name, row in (known.get("by_link") or {}).items():
        yield ["link", name, *(row.get(one) for one in LINK_NUMBERS)]


def point_rows(answer: Json) -> Rows:
    """Every point of the cost-against-time figure."""
    yield ["accelerator", "count", "hours", "usd", "frontier", "rank"]
    for point in answer.get("points") or ():
        yield [point.get(name) for name in ("accelerator", "count", "hours", "usd", "frontier", "rank")]


def price_rows(history: PriceHistory) -> Rows:
    """Every step of a price history."""
    yield ["provider", "from", "usd_per_gpu_hour"]
    yield from ([name, point.day.isoformat(), point.usd] for name, point in history.points)


def pair_rows(pairs: Iterable[Pair]) -> Rows:
    """Every run of the predicted-against-measured figure."""
    yield ["engine", "measured_gib", "predicted_gib", "run"]
    yield from ([pair.group, pair.measured, pair.predicted, pair.name] for pair in pairs)


TABLES: Mapping[str, Callable[[Json, Json, Json], Rows]] = {
    "ledger": lambda answer, option, explained: ledger_rows(option, explained),
    "phases": lambda answer, option, explained: phase_rows(option, explained),
    "step": lambda answer, option, explained: step_rows(option, explained),
    "traffic": lambda answer, option, explained: traffic_rows(option, explained),
    "points": lambda answer, option, explained: point_rows(answer),
}
FIGURES: Mapping[str, tuple[str, Callable[[PlanPage], dict[str, Any] | None]]] = {
    "ledger": ("_memory_bar.html", lambda page: {"bar": page.estimate.bar} if page.estimate else None),
    "phases": ("_step_memory.html", lambda page: {"chart": page.estimate.through_step} if page.estimate else None),
    "step": ("_step_time.html", lambda page: {"chart": page.estimate.step} if page.estimate else None),
    "points": ("_scatter.html", lambda page: {"chart": page.scatter} if page.scatter else None),
}
"""Name of a figure: its template, and what it is drawn from."""


def csv_of(rows: Rows) -> str:
    """Rows as CSV; None is an empty cell."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow(["" if value is None else safe_cell(str(value)) for value in row])
    return out.getvalue()


def svg_of(name: str, page: PlanPage) -> str | None:
    """A figure of a plan with its own light style inside; None where the page has no such figure."""
    template, read = FIGURES[name]
    context = read(page)
    if not context or None in context.values():
        return None
    return drawing_of(template, context | {"id": name})


def drawing_of(template: str, context: Mapping[str, Any]) -> str:
    """The figure of a template as a file: its SVG, the labels that stand beside it on the page, and its style."""
    html = render_to_string(f"planner/parts/{template}", dict(context))
    figure = html[html.index('<figure class="fig"') : html.index("</figure>")]
    drawing = figure[figure.index("<svg ") : figure.rindex("</svg>") + len("</svg>")]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="fig" width="{WIDTH}" '
    body = drawing.removeprefix("<svg ").replace(">", f"><style>{_style()}</style>", 1)
    whole = (head + body).removesuffix("</svg>") + _beside(context.get("chart")) + "</svg>"
    return whole.replace("&nbsp;", "\u00a0")


def _beside(chart: Any) -> str:
    """The labels of the upright axis and of the lines, which the page draws beside the figure."""
    heights = "".join(
        f'<text x="4" y="{tick.at + 2:.1f}" class="m lab">{escape(tick.label)}</text>'
        for tick in getattr(chart, "y_ticks", ())
    )
    return heights + "".join(
        f'<text x="{WIDTH - 8}" y="{line.label_y - 2:.1f}" class="b lab end">{escape(line.label)}</text>'
        for line in getattr(chart, "lines", ())
    )


@lru_cache(maxsize=1)
def _style() -> str:
    """The chart rules of the page's style sheet with every variable filled in: viewers know neither."""
    tokens = _THEMED.sub(r"\1", (STATIC / "tokens.css").read_text("utf-8"))
    known = dict(_DEFINED.findall(tokens))
    rules = (STATIC / "answers.css").read_text("utf-8")
    charts = rules[rules.index("/* figures") : rules.index("/* around figures")]
    filled = _VARIABLE.sub(lambda match: known.get(match[1], "currentColor"), charts)
    return re.sub(r"\s+", " ", filled + "svg{overflow:visible}").replace("<", "")
