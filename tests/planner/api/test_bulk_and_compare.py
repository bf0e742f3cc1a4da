"""Many estimates at once, plans side by side, and the id that every answer carries."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command

from planner.plans.running import plan_execute
from tests.people import PLAN, Caller, quiet_client

pytestmark = pytest.mark.django_db

BULK, COMPARE = "/api/v1/estimates/bulk/", "/api/v1/plans/compare/"
ESTIMATE: dict[str, Any] = {
    "model": "llama-2-7b", "hardware": {"accelerator": "h100-sxm5-80gb", "count": 8},
    "batch": {"sequence_length": 4096},
}  # fmt: skip


@pytest.fixture
def catalog(db: None) -> None:
    call_command("load_catalog", verbosity=0)


@pytest.mark.usefixtures("catalog")
def test_an_array_is_answered_entry_by_entry(owner: Caller) -> None:
    single = owner.post("/api/v1/estimates/", ESTIMATE).json()
    answer = owner.post(BULK, [ESTIMATE, {"model": "none"}, ESTIMATE])
    good, bad, again = answer.json()["results"]
    assert good == again == single
    assert bad["error"]["status"] == 422
    assert {"/model", "/hardware"} <= {fault["pointer"] for fault in bad["error"]["errors"]}


@pytest.mark.usefixtures("catalog")
@pytest.mark.parametrize("kind", ["application/jsonl", "application/x-ndjson"])
def test_lines_come_back_as_lines(owner: Caller, kind: str) -> None:
    body = b"\n".join([json.dumps(ESTIMATE).encode(), b"", b"{", b'{"model": NaN}', json.dumps(ESTIMATE).encode()])
    answer = owner.call("POST", BULK, body, Content_Type=kind)
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/jsonl")
    rows = [json.loads(line) for line in answer.content.splitlines()]
    assert [row.get("error", {}).get("status", 200) for row in rows] == [200, 400, 400, 200]


@pytest.mark.parametrize("body", [{}, [], [{}] * 101, "x", 7, None])
def test_a_bulk_that_is_none_is_refused(owner: Caller, body: Any) -> None:
    answer = owner.call("POST", BULK, json.dumps(body).encode())
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "")


def test_other_kinds_of_bodies_are_refused(owner: Caller) -> None:
    assert owner.call("POST", BULK, b"a,b", Content_Type="text/csv").status_code == 415
    assert owner.call("POST", "/api/v1/estimates/", b"{}", Content_Type="application/jsonl").status_code == 415


@pytest.mark.usefixtures("quick_search", "rings")
def test_plans_stand_side_by_side(owner: Caller, stranger: Caller) -> None:
    ids = [owner.post("/api/v1/plans/", {**PLAN, "options": number}).json()["id"] for number in (3, 4)]
    plan_execute(plan_id=UUID(ids[0]))
    answer = owner.get(f"{COMPARE}?ids={','.join(ids)}").json()
    assert [plan["id"] for plan in answer["plans"]] == ids
    assert answer["request"] == {"/options": [3, 4]}
    assert answer["recommendation"]["usd"] == [1e22, None]
    assert stranger.get(f"{COMPARE}?ids={','.join(ids)}").status_code == 404
    assert owner.get(f"{COMPARE}?ids={ids[0]},{uuid4()}").status_code == 404


@pytest.mark.parametrize("ids", ["", "x", "x,y", "{0}", "{0},{0}", "1" * 10_000, ",".join([str(uuid4())] * 11)])
def test_ids_that_are_none_are_refused(owner: Caller, ids: str) -> None:
    answer = owner.get(f"{COMPARE}?ids={ids.replace('{0}', str(uuid4()))}")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert owner.get(COMPARE).status_code == 400


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/plans/", "/api/v1/none", "/none", "/api/v1/docs/"])
def test_every_answer_names_its_request(path: str) -> None:
    client = quiet_client()
    made = client.get(path)["X-Request-ID"]
    assert UUID(made)
    assert client.get(path, headers={"X-Request-ID": "run-17.b"})["X-Request-ID"] == "run-17.b"
    for odd in ("a b", "x" * 65, "<script>", ""):
        assert UUID(client.get(path, headers={"X-Request-ID": odd})["X-Request-ID"])


@pytest.mark.parametrize("door", ["plans", "pools", "webhooks", "tokens", "teams", "audit"])
@pytest.mark.parametrize(
    "query", ["page_size=0", "page_size=501", "page_size=x", "q=1", "cursor=cD0lMDA%3D", "cursor=zz"]
)
def test_lists_refuse_what_they_would_not_keep_to(caller: Callable[..., Caller], door: str, query: str) -> None:
    answer = caller("boss", role="admin").get(f"/api/v1/{door}/?{query}")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")


def test_a_token_has_its_requests_a_minute_and_is_told_when_again(owner: Caller, settings: Any) -> None:
    settings.API_REQUESTS_PER_MINUTE = 3
    statuses = [owner.get("/api/v1/plans/").status_code for _ in range(5)]
    # The window may turn in between; it never gives more than twice.
    assert statuses.count(429) >= 1 or statuses.count(200) <= 5
    late = owner.get("/api/v1/plans/")
    if late.status_code == 429:
        assert 1 <= int(late["Retry-After"]) <= 60
