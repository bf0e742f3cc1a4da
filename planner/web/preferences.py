"""The columns a reader chose for each table, kept with their session until they choose others."""

from __future__ import annotations

from django.http import HttpRequest, QueryDict

KEPT = "columns"


def with_kept_columns(request: HttpRequest, table: str) -> QueryDict:
    """The address's query; without a choice of columns, the reader's last one for this table."""
    asked = request.GET.copy()
    chosen = asked.get("columns") or ",".join(asked.getlist("column"))
    kept = request.session.get(KEPT, {})
    if "columns" in asked or "column" in asked:
        if kept.get(table) != chosen:
            request.session[KEPT] = {**kept, table: chosen[:500]}
        asked["columns"] = chosen
    elif kept.get(table):
        asked["columns"] = kept[table]
    return asked
