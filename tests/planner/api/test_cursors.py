"""Cursors are a client's text like any other: another page's, another team's, another date's, or none at all."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.db import transaction

from tests.people import PLAN, Caller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_search", "rings")]

DOORS = ("plans", "pools", "webhooks", "webhooks/night/deliveries", "tokens", "teams", "audit", "validations")
POSITIONS = (
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-12-31 23:59:59.999999+00:00", "0001-01-01",
    "2026-13-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00+23:59", "now", "infinity", "-infinity", "epoch", "NaN",
    "0", "-1", "1e400", "9" * 400, "x" * 3000, "%", "'", "''; --", "\u0661", "\u202e", "\0", "\n", "\ud83d", "null",
    "[]", "{}", "00000000-0000-0000-0000-000000000000", "True",
)  # fmt: skip


def cursor(**parts: str) -> str:
    return base64.b64encode(urlencode(parts, errors="surrogatepass").encode()).decode()


@pytest.fixture
def boss(caller: Callable[..., Caller]) -> Caller:
    made = caller("boss", role="admin")
    made.post("/api/v1/webhooks/", {"slug": "night", "url": "https://hooks.example.org/"})
    for _ in range(3):
        made.post("/api/v1/plans/", PLAN)
    return made


@pytest.mark.parametrize("door", DOORS)
def test_any_position_is_answered_or_refused(boss: Caller, door: str) -> None:
    wrong: list[Any] = []
    for position in POSITIONS:
        for more in ({}, {"r": "1", "o": "9" * 30}):
            with transaction.atomic():  # what the database refuses spoils no more than this request, as in the service
                answer = boss.get(f"/api/v1/{door}/?cursor={quote(cursor(p=position, **more))}")
                transaction.set_rollback(True)
            kind = "application/json" if answer.status_code == 200 else "application/problem+json"
            if answer.status_code not in (200, 400) or answer["Content-Type"] != kind:
                wrong.append((position[:40], more, answer.status_code))
    assert wrong == []


def test_a_cursor_of_another_team_shows_ones_own(boss: Caller, stranger: Caller) -> None:
    following = boss.get("/api/v1/plans/?page_size=1").json()["next"]
    rows = stranger.get(following.partition("testserver")[2]).json()["results"]
    assert rows == []


def test_walking_there_and_back_shows_every_plan_once(boss: Caller) -> None:
    seen, at = [], "/api/v1/plans/?page_size=1"
    while at:
        page = boss.get(at).json()
        seen += [row["id"] for row in page["results"]]
        at, back = (page["next"] or "").partition("testserver")[2], page["previous"]
    assert len(seen) == len(set(seen)) == 3
    page = boss.get(back.partition("testserver")[2]).json()
    assert [row["id"] for row in page["results"]] == seen[1:2]
