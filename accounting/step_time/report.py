"""Scores of a set of constants as one table: fit part, report part, null model, each source left out in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from accounting.step_time.judge import Judged, Score, scores
from accounting.step_time.pressure import allocator_retries
from accounting.step_time.rows import STEP_TERMS, jitter
from accounting.step_time.terms import MICRO_BATCH_TERMS

HEADINGS = ("source", "fit rows", "fit", "report rows", "bias", "report", "null model", "left out")
MANY = 10
"""Rows from which on a source is expected to beat the null model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One source; None where a part has no row of it or was not asked."""

    source: str
    fit: Score | None
    report: Score | None
    left_out: float | None
    """Mean error on its report rows, with constants that never saw its fit rows."""

    @property
    def worse_than_null(self) -> bool:
        """A source with many report rows on which the model loses against one median efficiency."""
        score = self.report
        return (
            score is not None and score.rows >= MANY and score.null_error is not None and score.error > score.null_error
        )


def lines_of(fit: Sequence[Judged], report: Sequence[Judged], left_out: Mapping[str, float]) -> list[Line]:
    """Every source of either part, by name."""
    fitted, reported = scores(fit), scores(report)
    return [
        Line(source=name, fit=fitted.get(name), report=reported.get(name), left_out=left_out.get(name))
        for name in sorted({*fitted, *reported})
    ]


def cells(line: Line) -> tuple[str, ...]:
    """A line as text under HEADINGS."""
    fit, report = line.fit, line.report
    return (
        line.source,
        "-" if fit is None else str(fit.rows),
        "-" if fit is None else f"{fit.error:.1%}",
        "-" if report is None else str(report.rows),
        "-" if report is None else f"{report.bias:+.1%}",
        "-" if report is None else f"{report.error:.1%}",
        "-" if report is None or report.null_error is None else f"{report.null_error:.1%}",
        "-" if line.left_out is None else f"{line.left_out:.1%}",
    )


def summary(lines: Iterable[Line]) -> tuple[str, ...]:
    """The mean of all sources, as text under HEADINGS."""
    lines = list(lines)

    def mean(values: list[float]) -> str:
        return f"{fmean(values):.1%}" if values else "-"

    fits, reports = [line.fit for line in lines if line.fit], [line.report for line in lines if line.report]
    return (
        "mean of sources",
        str(sum(score.rows for score in fits)),
        mean([score.error for score in fits]),
        str(sum(score.rows for score in reports)),
        mean([score.bias for score in reports]),
        mean([score.error for score in reports]),
        mean([score.null_error for score in reports if score.null_error is not None]),
        mean([line.left_out for line in lines if line.left_out is not None]),
    )


def plain_table(lines: Sequence[Line]) -> str:
    """Aligned columns for a terminal; a star marks a source that loses against the null model on many rows."""
    rows = [HEADINGS, *(cells(line) for line in lines), summary(lines)]
    stars = [" ", *("*" if line.worse_than_null else " " for line in lines), " "]
    return "\n".join(
        f"{row[0][:48]:48}" + "".join(value.rjust(12) for value in row[1:]) + star
        for row, star in zip(rows, stars, strict=True)
    )


def markdown_table(lines: Sequence[Line]) -> str:
    """The same for a document."""
    rows = [HEADINGS, ("---", *("---:" for _ in HEADINGS[1:])), *(cells(line) for line in lines), summary(lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def terms_table() -> str:
    """Every term of the step with its part and the sentence the answer prints, as Markdown."""
    laws: list[tuple[str, str, Any]] = [
        (term.key, term.part, term.seconds) for term in (*MICRO_BATCH_TERMS, *STEP_TERMS)
    ]
    laws += [("jitter", "exposed_communication", jitter), ("allocator.retries", "memory_bound", allocator_retries)]
    rows = [("term", "part", "what"), ("---", "---", "---")]
    rows += [(f"`{key}`", part, (law.__doc__ or "").split("\n", 1)[0].replace("|", "\\|")) for key, part, law in laws]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def with_block(text: str, name: str, content: str) -> str:
    """A document with what stands between `<!-- name -->` and `<!-- /name -->` replaced.

    Raises ValueError where a marker is missing.
    """
    before, start, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not start or not end:
        raise ValueError(f"no block {name!r} in this document")
    return before + start + content + end + after


def document(text: str, lines: Sequence[Line], version: str) -> str:
    """The document with its terms and scores brought up to date."""
    scored = f"Constants {version}.\n\n" + markdown_table(lines)
    return with_block(with_block(text, "terms", terms_table()), "scores", scored)
