"""Whatever is sent: a problem document, bounded, with a pointer where there is one, and never a 500."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, ProgrammingError
from psycopg.errors import UndefinedColumn

from tests.people import PLAN, Caller, quiet_client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("rings")]

PLANS, ESTIMATES = "/api/v1/plans/", "/api/v1/estimates/"
POINTER = re.compile(r"^(/([^~/]|~[01])*)*$", re.S)
GOOD = json.dumps(PLAN).encode()

BODIES: dict[str, tuple[bytes, set[int]]] = {
    "empty": (b"", {400, 422}),
    "cut": (b"{", {400}),
    "two documents": (GOOD + GOOD, {400}),
    "comment": (b"/* x */" + GOOD, {400}),
    "utf-16": (GOOD.decode().encode("utf-16"), {400}),
    "bad utf-8": (GOOD[:-1] + b',"x":"\xff\xfe"}', {400}),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, {400}),
    "pickle": (b"\x80\x04\x95\x00.", {400}),
    "compressed": (zlib.compress(GOOD), {400}),
    "nan": (b'{"model": NaN}', {400}),
    "infinity": (b'{"model": -Infinity}', {400}),
    "leading zero": (b'{"options": 01}', {400}),
    "same member twice": (b'{"model": "a", "model": "b"}', {400}),
    "1000 brackets": (b"[" * 1_000 + b"]" * 1_000, {400, 422}),
    "100k brackets": (b"[" * 100_000 + b"]" * 100_000, {400}),
    "100k objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, {400}),
    "65 levels": (b"[" * 66 + b"]" * 66, {422}),
    "nul": (b'{"model": "llama\\u0000"}', {422}),
    "lone surrogate": (b'{"model": "\\ud83d"}', {422}),
    "nul in a name": (b'{"a\\u0000": 1}', {422}),
    "1e400": (b'{"options": 1e400}', {422}),
    "5000 digits": (b'{"options": ' + b"9" * 5000 + b"}", {422}),
    "2**63": (b'{"options": 9223372036854775808}', {422}),
    "long text": (json.dumps({"model": "A" * 200_000}).encode(), {422}),
    "long name": (json.dumps({"A" * 200_000: 1}).encode(), {422}),
    "100k members": (b"{" + b",".join(b'"k%d":1' % i for i in range(100_000)) + b"}", {413, 422}),
    "array": (b"[]", {422}),
    "null": (b"null", {422}),
    "true": (b"true", {422}),
}


def check(answer: Any, allowed: set[int]) -> dict[str, Any]:
    assert answer.status_code in allowed, answer.content[:300]
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert len(answer.content) < 65_536
    body: dict[str, Any] = answer.json()
    assert body["status"] == answer.status_code
    assert all(body[name] for name in ("type", "title", "detail"))
    for error in body["errors"]:
        assert POINTER.match(error["pointer"])
        assert error["code"]
        assert error["detail"]
    return body


@pytest.mark.parametrize("path", [PLANS, ESTIMATES])
@pytest.mark.parametrize("name", BODIES)
def test_bodies(owner: Caller, path: str, name: str) -> None:
    content, allowed = BODIES[name]
    body = check(owner.post(path, content), allowed)
    assert body["errors"] or body["status"] == 413


def test_faults_point_at_their_place(owner: Caller) -> None:
    body = owner.post(PLANS, b'{"model": "a\\u0000", "x": [1, {"y/z": 1e999}], "~": "\\udc00"}').json()
    assert [error["pointer"] for error in body["errors"]] == ["/model", "/x/1/y~1z", "/~0"]


def test_a_list_nobody_means_is_named_and_not_entered(owner: Caller) -> None:
    body = owner.post(PLANS, json.dumps({"search": {"tp": list(range(1, 20_000))}}).encode()).json()
    assert [(error["pointer"], error["code"]) for error in body["errors"]] == [("/search/tp", "too_many_values")]


def test_a_body_over_the_limit_gets_413_unread(owner: Caller) -> None:
    check(owner.post(PLANS, b'{"model": "' + b"A" * 2_000_000 + b'"}'), {413})


def test_a_compressed_body_gets_415(owner: Caller) -> None:
    check(owner.post(PLANS, zlib.compress(b" " * 10_000_000), Content_Encoding="deflate"), {415})


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/xml", "multipart/form-data", "multipart/form-data; boundary=x", "x" * 3000, "/",
             "application/x-www-form-urlencoded", "application/json; charset=utf-7"]
)  # fmt: skip
def test_other_media_types_get_415(owner: Caller, kind: str) -> None:
    check(owner.post(PLANS, GOOD, Content_Type=kind), {415})


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "FOO", "OPTIONS"])
def test_other_methods_get_405(owner: Caller, method: str) -> None:
    answer = owner.call(method, ESTIMATES)
    check(answer, {405})


@pytest.mark.parametrize("accept", ["application/xml", "text/html", "*/*;q=abc", "a" * 4000])
def test_accept_chooses_nothing(owner: Caller, accept: str) -> None:
    assert owner.get(PLANS, Accept=accept)["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "path", ["plans/0/", "plans/%00/", "plans/..%2f..%2fetc%2fpasswd/", "plans/%FF%FE/", "plans/1;id/", "no-such/",
             "models/%00/", "accelerators/..%2f..%2f/", "accelerators/" + "9" * 400 + "/", "plans/%0d%0aX-Evil:1/"]
)  # fmt: skip
def test_addresses_that_are_none(owner: Caller, path: str) -> None:
    check(owner.get(f"/api/v1/{path}"), {404})


def test_another_version_is_not_there(owner: Caller) -> None:
    check(owner.post("/api/v99/estimates/", {}), {404})


def test_nobody_is_told_to_sign_in() -> None:
    for path in (PLANS, "/api/v1/accelerators/"):
        check(Caller(quiet_client(), "").get(path), {401})


def test_an_evil_host_is_refused(owner: Caller) -> None:
    check(owner.get(PLANS, Host="evil.example"), {400})


def not_migrated() -> ProgrammingError:
    """As Django wraps what PostgreSQL says of a column that the next release brings."""
    error = ProgrammingError("no such column: secret")
    error.__cause__ = UndefinedColumn()
    return error


@pytest.mark.parametrize("error", [OperationalError("gone: secret"), InterfaceError("closed: secret"), not_migrated()])
def test_a_database_that_is_away_is_a_503(owner: Caller, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def away(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("planner.api.plans.plans_of", away)
    answer = owner.get(PLANS)
    check(answer, {503})
    assert int(answer["Retry-After"]) > 0
    monkeypatch.setattr("planner.api.middleware._refusal", away)  # outside every view: the last resort answers
    answer = owner.get(PLANS)
    assert b"secret" not in answer.content
    check(answer, {503})


def test_a_fault_of_ours_tells_nothing(owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("planner.api.plans.plans_of", broken)
    answer = owner.get(PLANS)
    check(answer, {500})
    assert b"secret" not in answer.content


def test_too_many_requests_get_429(owner: Caller, stranger: Caller, settings: Any) -> None:
    settings.API_REQUESTS_PER_MINUTE = 2
    answers = [owner.get(PLANS) for _ in range(4)]
    assert answers[-1].status_code == 429
    check(answers[-1], {429})
    assert 1 <= int(answers[-1]["Retry-After"]) <= 60
    assert stranger.get(PLANS).status_code == 200


def test_a_cache_that_is_away_stops_nobody(owner: Caller, settings: Any) -> None:
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}
    }
    assert owner.get(PLANS).status_code == 200
