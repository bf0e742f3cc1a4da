"""SVG figures of predicted against measured memory: text and shapes only, the same bytes from the same runs.

Colours are Okabe and Ito's, safe for colour-blind readers, lighter on dark ground; every code base has a shape too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from tests.truth.runs import GOAL, Run, by, summary

WIDTH = 760
GB = 1e9
INKS: tuple[tuple[str, str], ...] = (
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#e69f00"),
    ("#007a5a", "#2fc79a"),
    ("#b0528a", "#e79bc4"),
    ("#6b6b00", "#f0e442"),
    ("#4d4d4d", "#c8c8c8"),
    ("#7a3db8", "#bfa0ff"),
)
"""(on light ground, on dark ground)."""
SHAPES = ("circle", "square", "up", "diamond", "down", "cross", "plus")
STYLE = (
    "text{{font:12px system-ui,sans-serif;fill:var(--ink)}}.small{{font-size:11px}}"
    ".title{{font-size:15px;font-weight:600}}.grid{{stroke:var(--grid)}}.axis{{stroke:var(--ink)}}"
    ".band{{fill:var(--band)}}.ground{{fill:var(--ground)}}.mark{{fill-opacity:.55;stroke-width:1.2}}"
    "svg{{--ground:#fff;--ink:#1c1e21;--grid:#dcdfe4;--band:#e8eef6;{light}}}"
    "@media (prefers-color-scheme:dark){{svg{{--ground:#15171a;--ink:#e6e8eb;--grid:#343a42;--band:#232b36;{dark}}}}}"
)


def scatter(runs: Sequence[Run]) -> str:
    """Predicted over measured, both logarithmic, one mark a run, shape and colour by code base."""
    left, top, side, low, high = 70, 54, 520, 2.0, 100.0

    def along(value: float) -> float:
        return side * math.log(value / low) / math.log(high / low)

    groups = by(runs, "code")
    body = [_heading("Peak memory of published runs, predicted against measured", len(runs))]
    edges = [(low, low * (1 + GOAL)), (high / (1 + GOAL), high), (high, high * (1 - GOAL)), (low / (1 - GOAL), low)]
    corners = " ".join(f"{left + along(x):.1f},{top + side - along(y):.1f}" for x, y in edges)
    body.append(f'<polygon class="band" points="{corners}"/>')
    for tick in (2, 5, 10, 20, 50, 100):
        x, y = left + along(tick), top + side - along(tick)
        body.append(f'<path class="grid" d="M{x:.1f} {top}V{top + side}M{left} {y:.1f}H{left + side}"/>')
        body.append(f'<text class="small" x="{x:.1f}" y="{top + side + 16}" text-anchor="middle">{tick}</text>')
        body.append(f'<text class="small" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    body.append(f'<path class="axis" d="M{left} {top + side}L{left + side} {top}" stroke-dasharray="4 4"/>')
    for place, members in enumerate(groups.values()):
        for run in members:
            x, y = (min(max(value / GB, low), high) for value in (run.measured, run.predicted))
            body.append(_mark(place, left + along(x), top + side - along(y), 3.6))
    body.append(f'<text x="{left + side / 2}" y="{top + side + 38}" text-anchor="middle">measured, GB</text>')
    middle = top + side / 2
    body.append(f'<text transform="translate(22 {middle}) rotate(-90)" text-anchor="middle">predicted, GB</text>')
    for place, (name, members) in enumerate(groups.items()):
        y = top + 14 + 40 * place
        body.append(_mark(place, left + side + 22, y - 4, 5))
        body.append(f'<text x="{left + side + 34}" y="{y}">{escape(name)}</text>')
        mean = summary(members).mean
        note = f"{len(members)} runs, mean error {mean:.1%}"
        body.append(f'<text class="small" x="{left + side + 34}" y="{y + 15}">{note}</text>')
    y = top + 14 + 40 * len(groups)
    body.append(f'<rect class="band" x="{left + side + 14}" y="{y - 12}" width="16" height="12"/>')
    body.append(f'<text class="small" x="{left + side + 34}" y="{y - 2}">within {GOAL:.0%}</text>')
    return _drawing(WIDTH + 60, top + side + 54, "Scatter of predicted over measured peak memory", body)


def strips(runs: Sequence[Run]) -> str:
    """Signed error of every run, one line a source, the median as an upright stroke."""
    left, top, row, width, reach = 300, 62, 24, 400, 0.5

    def along(error: float) -> float:
        return left + width * (min(max(error, -reach), reach) + reach) / (2 * reach)

    sources = by(runs, "source")
    codes = list(by(runs, "code"))
    bottom = top + row * len(sources)
    body = [_heading("Error of the predicted peak by source", len(runs))]
    x = along(-GOAL)
    body.append(f'<rect class="band" x="{x:.1f}" y="{top}" width="{along(GOAL) - x:.1f}" height="{bottom - top}"/>')
    for tick in (-0.5, -0.25, 0.0, 0.25, 0.5):
        x = along(tick)
        body.append(f'<path class="{"grid" if tick else "axis"}" d="M{x:.1f} {top}V{bottom}"/>')
        body.append(f'<text class="small" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:+.0%}</text>')
    for place, (source, members) in enumerate(sources.items()):
        y = top + row * (place + 0.5)
        body.append(f'<text x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(_short(source))}</text>')
        body += [_mark(codes.index(run.code), along(run.error), y, 3.4) for run in members]
        x = along(summary(members).median)
        body.append(f'<path class="axis" stroke-width="2" d="M{x:.1f} {y - 9:.1f}v18"/>')
        body.append(f'<text class="small" x="{left + width + 10}" y="{y + 4:.1f}">{len(members)}</text>')
    note = f"shaded: within {GOAL:.0%}; beyond half, at the edge; shapes as in the other figure"
    body.append(f'<text class="small" x="{left}" y="{bottom + 34}">{note}</text>')
    return _drawing(WIDTH, bottom + 46, "Signed errors of predicted peak memory by source", body)


def _short(source: str) -> str:
    return source if len(source) <= 42 else source[:41].rstrip() + "…"


def _heading(words: str, count: int) -> str:
    note = f"{count} runs that no constant was fitted on"
    return f'<text class="title" x="20" y="24">{words}</text><text class="small" x="20" y="42">{note}</text>'


def _mark(place: int, x: float, y: float, size: float) -> str:
    shape, ink = SHAPES[place % len(SHAPES)], f"var(--c{place % len(INKS)})"
    drawn = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}"',
        "square": f'<rect x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size}" height="{2 * size}"',
        "up": f'<path d="M{x:.1f} {y - size:.1f}l{size} {2 * size}h-{2 * size}z"',
        "down": f'<path d="M{x:.1f} {y + size:.1f}l{size} -{2 * size}h-{2 * size}z"',
        "diamond": f'<path d="M{x:.1f} {y - size:.1f}l{size} {size}l-{size} {size}l-{size} -{size}z"',
        "cross": f'<path d="M{x - size:.1f} {y - size:.1f}l{2 * size} {2 * size}m0 -{2 * size}l-{2 * size} {2 * size}"',
        "plus": f'<path d="M{x - size:.1f} {y:.1f}h{2 * size}m-{size} -{size}v{2 * size}"',
    }[shape]
    return f'{drawn} class="mark" style="fill:{ink};stroke:{ink}"/>'


def _drawing(width: int, height: int, words: str, body: list[str]) -> str:
    light, dark = ("".join(_inks(column)) for column in (0, 1))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" aria-label="{words}">',
            f"<title>{words}</title>",
            f"<style>{STYLE.format(light=light, dark=dark)}</style>",
            f'<rect class="ground" width="{width}" height="{height}"/>',
            *body,
            "</svg>\n",
        )
    )


def _inks(column: int) -> Iterator[str]:
    for place, pair in enumerate(INKS):
        yield f"--c{place}:{pair[column]};"
