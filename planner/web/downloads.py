"""Answers that are files: tables as CSV, figures as SVG that stand alone."""

from __future__ import annotations

from django.http import HttpResponse

from planner.web.tables import Table, csv_text

KINDS = {"csv": "text/csv; charset=utf-8", "svg": "image/svg+xml"}
"""Kinds of file a figure comes as."""


def table_csv(shown: Table) -> HttpResponse:
    """The table as it is shown, as a file."""
    return as_file(csv_text(shown), f"{shown.name}.csv", KINDS["csv"])


def as_file(content: str, name: str, kind: str) -> HttpResponse:
    """A download; the name is ours, never a stranger's."""
    answer = HttpResponse(content, content_type=kind)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
