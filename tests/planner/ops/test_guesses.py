"""Guessing is slow for an account and for an address, owners get in again, and a header changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from planner.ops import guesses
from planner.ops.counters import counters
from planner.ops.guesses import TRIES_PER_ACCOUNT, TRIES_PER_ADDRESS, WINDOW_SECONDS
from tests.people import Caller

pytestmark = pytest.mark.django_db

RIGHT = "correct horse battery staple"
DOORS = ("/login/", "/admin/login/")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[list[float]]:
    """A window of the test's own, and no counter left behind."""
    settings.REDIS_PREFIX = f"{settings.REDIS_PREFIX}tries:"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # hundreds of tries, and no secret
    now = [WINDOW_SECONDS * 1_000.0]
    monkeypatch.setattr(guesses.time, "time", lambda: now[0])
    kept, mine = counters(), f"{settings.REDIS_PREFIX}*"
    yield now
    for key in kept.scan_iter(mine):
        kept.delete(key)


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_superuser("ada", password=RIGHT)


def sign_in(door: str = DOORS[0], name: str = "ada", password: str = "wrong", **sent: Any) -> Any:
    return Client().post(door, {"username": name, "password": password}, **sent)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.usefixtures("ada")
def test_one_account_from_many_addresses(clock: list[float], door: str) -> None:
    answers = [sign_in(door, REMOTE_ADDR=f"203.0.113.{number}") for number in range(50)]
    assert [answer.status_code for answer in answers] == [200] * TRIES_PER_ACCOUNT + [429] * (50 - TRIES_PER_ACCOUNT)
    assert 0 < int(answers[-1]["Retry-After"]) <= WINDOW_SECONDS
    assert sign_in(door, password=RIGHT).status_code == 429, "a right password is no oracle while guessing goes on"
    assert sign_in(door, name="ADA").status_code == 429
    clock[0] += WINDOW_SECONDS
    assert sign_in(door, password=RIGHT).status_code == 302


def test_many_accounts_from_one_address(settings: Any) -> None:
    answers = [sign_in(name=f"person{number}").status_code for number in range(TRIES_PER_ADDRESS + 5)]
    assert answers == [200] * TRIES_PER_ADDRESS + [429] * 5
    assert sign_in(name="another", HTTP_X_FORWARDED_FOR="198.51.100.1").status_code == 429, "nobody said to trust it"
    settings.BEHIND_TLS_PROXY = True
    assert sign_in(name="another", HTTP_X_FORWARDED_FOR="127.0.0.1, 198.51.100.1").status_code == 200
    assert sign_in(name="another", HTTP_X_FORWARDED_FOR="198.51.100.1, 127.0.0.1").status_code == 429


@pytest.mark.usefixtures("ada")
def test_who_gets_in_begins_anew() -> None:
    for _ in range(3):
        for _ in range(TRIES_PER_ACCOUNT - 1):
            assert sign_in().status_code == 200
        assert sign_in(password=RIGHT).status_code == 302


def test_wrong_tokens_are_refused_and_right_ones_never(owner: Caller) -> None:
    def status(token: str) -> int:
        answer = Caller(Client(), token).get("/api/v1/teams/")
        kind = "application/json" if answer.status_code == 200 else "application/problem+json"
        assert answer["Content-Type"] == kind
        assert ("Retry-After" in answer) == (answer.status_code == 429)
        return int(answer.status_code)

    found = [status(f"plan_{number:064x}") for number in range(TRIES_PER_ADDRESS + 5)]
    assert found == [401] * TRIES_PER_ADDRESS + [429] * 5
    assert status(owner.token) == 200


@pytest.mark.usefixtures("ada")
def test_a_cache_that_is_away_locks_nobody_out(settings: Any) -> None:
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    assert [sign_in().status_code for _ in range(TRIES_PER_ACCOUNT + 2)] == [200] * (TRIES_PER_ACCOUNT + 2)
    assert sign_in(password=RIGHT).status_code == 302
