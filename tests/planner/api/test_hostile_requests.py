"""Requests that nobody means: each is refused as a problem document, at once, and never as a fault of ours."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest

from planner.documents import MAX_BODY_BYTES
from tests.people import PLAN, Caller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("rings")]

ESTIMATES, PLANS, POOLS, HOOKS, TOKENS = (
    f"/api/v1/{name}/" for name in ("estimates", "plans", "pools", "webhooks", "tokens")
)
IMPORT = "/api/v1/models/import/"
PLAN_TEXT = json.dumps(PLAN)
CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 256,
}  # fmt: skip


def plan(**members: Any) -> bytes:
    return json.dumps({**PLAN, **members}).encode()


def estimate(**members: Any) -> bytes:
    hardware = {"accelerator": "h100-sxm5-80gb", "count": 8}
    return json.dumps({"model": "llama-2-7b", "hardware": hardware, **members}).encode()


def config(**members: Any) -> bytes:
    return json.dumps({**CONFIG, **members}).encode()


def deep(depth: int, inner: str = "1") -> bytes:
    return ('{"a":' * depth + inner + "}" * depth).encode()


BODIES: dict[str, tuple[str, bytes, int]] = {
    "100,000 brackets": (ESTIMATES, b"[" * 100_000, 400),
    "100,000 braces": (ESTIMATES, b'{"a":' * 100_000, 400),
    "deep but closed": (ESTIMATES, deep(400), 422),
    "deep inside a known member": (ESTIMATES, estimate(options=json.loads(deep(60))), 422),
    "deep in a model's config": (IMPORT, config(rope_scaling=json.loads(deep(70))), 422),
    "NaN for a count": (ESTIMATES, estimate().replace(b'"count": 8', b'"count": NaN'), 400),
    "minus infinity": (ESTIMATES, estimate().replace(b'"count": 8', b'"count": -Infinity'), 400),
    "1e400": (ESTIMATES, estimate().replace(b'"count": 8', b'"count": 1e400'), 422),
    "a count of 4,000 digits": (ESTIMATES, estimate().replace(b'"count": 8', b'"count": ' + b"9" * 4_000), 422),
    "an int of 200,000 digits": (ESTIMATES, estimate().replace(b'"count": 8', b'"count": ' + b"9" * 200_000), 422),
    "a float of 200,000 digits": (ESTIMATES, estimate().replace(b'"count": 8', b'"count": 0.' + b"1" * 200_000), 422),
    "a lone surrogate": (POOLS, b'{"slug": "\\ud83d", "accelerator": "x", "node_type": "y", "count": 1}', 422),
    "a surrogate as a name": (PLANS, b'{"\\udc00": 1}', 422),
    "a NUL in a token's name": (TOKENS, b'{"name": "a\\u0000b"}', 422),
    "not UTF-8": (TOKENS, b'{"name": "\xff\xfe"}', 400),
    "UTF-16": (TOKENS, '{"name": "a"}'.encode("utf-16"), 400),
    "a byte order mark": (TOKENS, b'\xef\xbb\xbf{"name": "a"}', 400),
    "a member twice": (PLANS, b'{"model": "llama-2-7b", "model": "llama-3-8b"}', 400),
    "a member twice, escaped": (PLANS, b'{"model": "llama-2-7b", "\\u006dodel": "llama-3-8b"}', 400),
    "a member twice among 90,000": (
        PLANS,
        b"{" + b"".join(b'"k%d":0,' % number for number in range(90_000)) + b'"z":0,"z":0}',
        400,
    ),
    "two documents": (PLANS, PLAN_TEXT.encode() * 2, 400),
    "nothing": (PLANS, b"", 422),
    "a bare null": (PLANS, b"null", 422),
    "a bare list": (PLANS, b"[]", 422),
    "true for a count": (ESTIMATES, estimate(hardware={"accelerator": "h100-sxm5-80gb", "count": True}), 422),
    "a list for a word": (ESTIMATES, estimate(precision=["bf16-mixed"]), 422),
    "a path for a model": (ESTIMATES, estimate(model="../../../etc/passwd"), 422),
    "an address for a model": (ESTIMATES, estimate(model="http://169.254.169.254/latest/meta-data"), 422),
    "a template for a pool": (PLANS, plan(hardware={"pool": "{{ 7*7 }}${7*7}<script>"}), 422),
    "20,000 members": (PLANS, json.dumps({f"m{number}": 1 for number in range(20_000)}).encode(), 422),
    "10,000 accelerators": (PLANS, plan(hardware={"accelerators": ["h100-sxm5-80gb"] * 10_000}), 422),
    "zero of everything": (PLANS, plan(workload={"tokens": 0, "sequence_length": 0, "global_batch_tokens": 0}), 422),
    "all that int64 holds": (PLANS, plan(workload={"tokens": 2**63 - 1, "sequence_length": 2**63 - 1}), 422),
    "a model of 10^15 layers": (IMPORT, config(num_hidden_layers=10**15), 422),
    "a negative width": (IMPORT, config(hidden_size=-64), 422),
    "another's id and state": (
        PLANS,
        plan(id="00000000-0000-0000-0000-000000000000", status="succeeded", owner=1),
        422,
    ),
    "a webhook with a newline": (HOOKS, b'{"slug": "a", "url": "https://example.org/\\r\\nX-Evil: 1"}', 422),
    "a webhook with a user": (HOOKS, b'{"slug": "a", "url": "https://user:word@example.org/"}', 422),
    "a webhook to a file": (HOOKS, b'{"slug": "a", "url": "file:///etc/passwd"}', 422),
    "a slug that climbs": (HOOKS, b'{"slug": "../../x", "url": "https://example.org/"}', 422),
    "a slug with a newline at its end": (HOOKS, b'{"slug": "a\\n", "url": "https://example.org/"}', 422),
}
PRIVATE = (
    "127.0.0.1", "localhost", "0.0.0.0", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "[fd00::1]",
    "[fe80::1%25eth0]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "100.64.0.1", "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]", "127.0.0.1.", "127.0.0.0x1",
)  # fmt: skip
TYPES = (
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "application/json; charset=utf-16", "application/xml", "application/json, text/html", "",
)  # fmt: skip
PATHS: dict[str, tuple[int, ...]] = {
    "plans/../../admin/": (404,),
    "plans/%2e%2e/%2e%2e/admin/": (404,),
    "plans/..%2f..%2fetc%2fpasswd/": (404,),
    "plans/%00/": (404,),
    "plans/" + "9" * 5_000 + "/": (404,),
    "plans/00000000-0000-0000-0000-000000000000/options/" + "9" * 400 + "/exports/slurm/": (404,),
    "plans/00000000-0000-0000-0000-000000000000/options/1/exports/..%2f..%2fx/": (404,),
    "models/%0d%0aX-Evil:%201/": (404,),
    "models/%ff%fe/": (400, 404),
    "pools/%f0%9f%92%a9/": (404,),
    "teams/ours/members/%0a/": (404, 405),
    "plans/?page_size=99999999999999999999": (400,),
    "plans/?page_size=1e9": (400,),
    "plans/?page_size=%D9%A3": (400,),
    "plans/?page_size=5&page_size=6": (400,),
    "plans/?cursor=" + "A" * 5_000: (400,),
    "plans/?cursor=%00": (400,),
    "plans/?cursor=cD0yMDI2": (400,),
    "plans/?status=queued%27%20OR%201=1--": (400,),
    "plans/?status__in=queued": (400,),
    "plans/?team=theirs": (400,),
    "accelerators/?min_memory_bytes=NaN": (400,),
    "accelerators/?min_memory_bytes=1e999": (400,),
    "accelerators/?min_memory_bytes=" + "9" * 5_000: (400,),
    "audit/?action=%00": (400,),
    "accelerators/?vendor=a%00": (400,),
    "accelerators/?vendor=%ed%a0%80": (200, 400),
    "audit/?action=%25": (200, 400),
    "plans/compare/?ids=" + ",".join(["00000000-0000-0000-0000-000000000000"] * 11): (400,),
}  # fmt: skip


@pytest.fixture
def boss(caller: Any) -> Caller:
    made: Caller = caller("boss", role="admin")
    return made


def refused(answer: Any, *wanted: int) -> None:
    assert answer.status_code in wanted, answer.content[:300]
    if answer.status_code >= 400:
        assert answer["Content-Type"] == "application/problem+json"
        assert len(answer.content) < 64 << 10
        assert b"Traceback" not in answer.content
        assert "X-Evil" not in answer.headers


@pytest.mark.parametrize("name", BODIES)
def test_bodies(boss: Caller, name: str) -> None:
    path, body, wanted = BODIES[name]
    begun = time.monotonic()
    answer = boss.call("POST", path, body)
    refused(answer, wanted)
    assert answer.json()["errors"], "a body's fault has a place"
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("host", PRIVATE)
def test_webhooks_into_the_house(boss: Caller, host: str) -> None:
    refused(boss.post(HOOKS, {"slug": "a", "url": f"https://{host}/hook"}), 422)


@pytest.mark.parametrize("kind", TYPES)
def test_content_types(boss: Caller, kind: str) -> None:
    refused(boss.call("POST", PLANS, PLAN_TEXT.encode(), Content_Type=kind), 415)


@pytest.mark.parametrize("path", PATHS)
def test_paths_and_queries(boss: Caller, path: str) -> None:
    refused(boss.get(f"/api/v1/{path}"), *PATHS[path])


def test_a_compressed_body_is_not_opened(boss: Caller) -> None:
    bomb = gzip.compress(b" " * (50 << 20))
    assert len(bomb) < MAX_BODY_BYTES
    refused(boss.call("POST", PLANS, bomb, Content_Encoding="gzip"), 415)
    refused(boss.call("POST", PLANS, bomb, Content_Encoding="identity, gzip"), 415)
    refused(boss.call("POST", PLANS, bomb), 400)


def test_a_body_over_the_limit_is_not_read(boss: Caller) -> None:
    refused(boss.call("POST", PLANS, b" " * (MAX_BODY_BYTES + 1)), 413)


@pytest.mark.parametrize(
    ("header", "value", "wanted"),
    [
        ("Idempotency-Key", "", 400),
        ("Idempotency-Key", "k" * 256, 400),
        ("Idempotency-Key", "käse", 400),
        ("Idempotency-Key", "a\tb", 400),
        ("Prefer", "wait=-1", 400),
        ("Prefer", "wait=1e9", 400),
        ("Prefer", "wait=" + "9" * 5_000, 400),
        ("Prefer", "wait=٣", 400),
        ("Authorization", "Bearer", 401),
        ("Authorization", "Bearer a b", 401),
        ("Authorization", "Bearer plan_" + "0" * 100_000, 401),
        ("Authorization", "Bearer plän", 401),
        ("Authorization", "Basic YTpi", 401),
    ],
)
def test_headers(boss: Caller, header: str, value: str, wanted: int) -> None:
    refused(boss.call("POST", PLANS, b"{}", **{header: value}), wanted)


@pytest.mark.parametrize("given", ["a\r\nX-Evil: 1", "x" * 65, "../../x", "{{7*7}}", "ä", ""])
def test_a_request_id_of_another_form_is_replaced(boss: Caller, given: str) -> None:
    answer = boss.get(PLANS, X_Request_ID=given)
    assert answer.status_code == 200
    assert answer["X-Request-ID"] != given
    assert len(answer["X-Request-ID"]) == 36


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "BREW"])
def test_other_methods(boss: Caller, method: str) -> None:
    refused(boss.call(method, PLANS, b"{}"), 405)


def test_a_nul_in_the_name_of_a_model(boss: Caller) -> None:
    for name in ("%00", "a%00b", "llama-2-7b%00"):
        refused(boss.call("POST", f"{IMPORT}?name={name}", config()), 400)
