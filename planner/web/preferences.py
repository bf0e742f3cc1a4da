"""What a reader chose, kept with the account: columns of each list, and whether single letters act as keys."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest, QueryDict

from planner.web.models import Preferences

LONGEST = 500
_LETTERS = "letter_keys"


def with_kept_columns(request: HttpRequest, user: User, table: str) -> QueryDict:
    """The address's query; without a choice of columns, the reader's last one for this table."""
    asked = request.GET.copy()
    chosen = (asked.get("columns") or ",".join(asked.getlist("column")))[:LONGEST]
    kept = _columns_of(user)
    if "columns" in asked or "column" in asked:
        if kept.get(table, "") != chosen:
            Preferences.objects.update_or_create(user=user, defaults={"columns": {**kept, table: chosen}})
        asked["columns"] = chosen
    elif kept.get(table):
        asked["columns"] = kept[table]
    return asked


def _columns_of(user: User) -> dict[str, str]:
    found = Preferences.objects.filter(user=user).values_list("columns", flat=True).first()
    return dict(found or {})


def letter_keys(request: HttpRequest) -> bool:
    """Whether single letters act on this reader's pages; read once a session, so that no page asks the database."""
    if not request.user.is_authenticated:
        return True
    if _LETTERS not in request.session:
        found = Preferences.objects.filter(user=request.user).values_list("letter_keys", flat=True).first()
        request.session[_LETTERS] = found is not False
    return bool(request.session[_LETTERS])


def set_letter_keys(request: HttpRequest, user: User, *, on: bool) -> None:
    """Turn single letters on or off for the account."""
    Preferences.objects.update_or_create(user=user, defaults={_LETTERS: on})
    request.session[_LETTERS] = on
