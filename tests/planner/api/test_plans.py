"""The plans' doors: 202 and Location, waiting, keys, pages, cancelling, and nothing of another team's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest

from planner.plans.models import PlanRun
from planner.plans.running import plan_execute
from planner.teams.models import Team
from tests.people import PLAN, Caller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_search", "rings")]

PLANS = "/api/v1/plans/"


def finished(owner: Caller, **change: Any) -> str:
    path: str = owner.post(PLANS, {**PLAN, **change})["Location"]
    plan_execute(plan_id=UUID(path.rstrip("/").rsplit("/", 1)[-1]))
    return path


def test_a_plan_is_accepted_run_and_read(owner: Caller) -> None:
    accepted = owner.post(PLANS, PLAN)
    assert accepted.status_code == 202
    body = accepted.json()
    assert (body["status"], body["progress"]) == ("queued", 0.0)
    assert accepted["Location"] == f"{PLANS}{body['id']}/"
    plan_execute(plan_id=UUID(body["id"]))
    read = owner.get(accepted["Location"])
    assert read.status_code == 200
    run = PlanRun.objects.get(pk=body["id"])
    head = f'{{"id":"{run.pk}","status":"succeeded","progress":1.0,'
    assert read.content.decode() == head + run.answer[1:]


def test_the_same_bytes_come_every_time_and_304_for_their_tag(owner: Caller) -> None:
    path = finished(owner)
    first = owner.get(path)
    assert first.content == owner.get(path).content
    for seen in (first["ETag"], f"W/{first['ETag']}", f'"x", {first["ETag"]}', "*"):
        answer = owner.get(path, If_None_Match=seen)
        assert (answer.status_code, answer.content, answer["ETag"]) == (304, b"", first["ETag"])
    assert owner.get(path, If_None_Match='"x"').status_code == 200


def test_prefer_wait_answers_the_finished_plan(owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.plans.services.enqueue_on_commit", lambda task, row: plan_execute(plan_id=row))
    answer = owner.post(PLANS, PLAN, Prefer="respond-async, wait=5")
    assert (answer.status_code, answer.json()["status"]) == (200, "succeeded")
    assert answer["Preference-Applied"] == "wait=5"


def test_prefer_wait_gives_up_in_time_and_says_how_long_it_would(owner: Caller, settings: Any) -> None:
    settings.PLAN_WAIT_MAX_SECONDS = 0
    answer = owner.post(PLANS, PLAN, Prefer="wait=999999999")
    assert (answer.status_code, answer["Preference-Applied"]) == (202, "wait=0")


@pytest.mark.parametrize("value", ["wait=-1", "wait=nan", "wait=1e9", "wait=" + "9" * 23, "wait=", "wait=abc"])
def test_a_wait_that_is_no_number_is_refused(owner: Caller, value: str) -> None:
    answer = owner.post(PLANS, PLAN, Prefer=value)
    assert answer.status_code == 400
    assert not PlanRun.objects.exists()


def test_a_key_gives_the_first_plan_again(owner: Caller, stranger: Caller) -> None:
    first = owner.post(PLANS, PLAN, Idempotency_Key="k").json()["id"]
    assert owner.post(PLANS, PLAN, Idempotency_Key="k").json()["id"] == first
    other = owner.post(PLANS, {**PLAN, "options": 7}, Idempotency_Key="k")
    assert (other.status_code, other.json()["errors"][0]["code"]) == (422, "idempotency_key_reused")
    assert stranger.post(PLANS, PLAN, Idempotency_Key="k").json()["id"] != first


@pytest.mark.parametrize("key", ["", "k" * 256, "\u00ff", "a\tb"])
def test_odd_keys_are_refused(owner: Caller, key: str) -> None:
    assert owner.post(PLANS, PLAN, Idempotency_Key=key).status_code == 400


def test_cancelling(owner: Caller) -> None:
    path = owner.post(PLANS, PLAN)["Location"]
    assert owner.call("DELETE", path).json()["status"] == "cancelled"
    assert owner.call("DELETE", path).status_code == 200
    ended = owner.call("DELETE", finished(owner))
    assert (ended.status_code, ended.json()["type"]) == (409, "urn:shardplan:problem:plan_final")


def test_the_list_walks_every_plan_once_newest_first(owner: Caller) -> None:
    made = [owner.post(PLANS, {**PLAN, "options": number + 1}).json()["id"] for number in range(5)]
    seen: list[str] = []
    path = f"{PLANS}?page_size=2"
    while path:
        page = owner.get(path).json()
        assert len(page["results"]) <= 2
        seen += [row["id"] for row in page["results"]]
        following = urlsplit(page["next"] or "")
        path = f"{following.path}?{following.query}" if following.path else ""
    assert seen == made[::-1]


def test_the_list_filters_by_status(owner: Caller) -> None:
    finished(owner)
    owner.post(PLANS, PLAN)
    rows = owner.get(f"{PLANS}?status=succeeded").json()["results"]
    assert [row["status"] for row in rows] == ["succeeded"]


@pytest.mark.parametrize(
    "query",
    ["page_size=0", "page_size=-1", "page_size=501", "page_size=x", "page_size=" + "9" * 400, "status=odd", "q=1"],
)
def test_a_query_that_would_be_ignored_is_refused(owner: Caller, query: str) -> None:
    answer = owner.get(f"{PLANS}?{query}")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")


def test_another_teams_plan_is_not_there(owner: Caller, stranger: Caller) -> None:
    path = finished(owner)
    unknown = stranger.get(f"{PLANS}{uuid4()}/")
    for method in ("GET", "DELETE"):
        answer = stranger.call(method, path)
        assert (answer.status_code, answer.content) == (404, unknown.content)
    assert stranger.get(PLANS).json()["results"] == []
    assert owner.get(path).status_code == 200


def test_a_failed_plan_says_why(owner: Caller, quick_search: Callable[..., None]) -> None:
    def broken(*_: object) -> dict[str, Any]:
        raise ZeroDivisionError

    quick_search(broken)
    body = owner.get(finished(owner)).json()
    assert (body["status"], body["error"]["code"]) == ("failed", "internal_error")


def test_members_of_the_body_cannot_set_columns(owner: Caller, team: Team) -> None:
    body = {**PLAN, "status": "succeeded", "id": str(uuid4()), "team": 99, "owner": 1}
    answer = owner.post(PLANS, body).json()
    run = PlanRun.objects.get()
    assert (run.status, run.team, str(run.pk)) == ("queued", team, answer["id"])
    assert answer["id"] != body["id"]


def test_answers_carry_the_request_as_it_was_meant(owner: Caller) -> None:
    finished(owner)
    assert json.loads(PlanRun.objects.get().request) == PLAN
