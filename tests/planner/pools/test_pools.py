"""Pools: kept by whoever may edit the catalog, changed against the state that was read, planned with by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command

from planner.ops.models import AuditEvent
from planner.plans.running import plan_execute
from planner.pools.models import Pool
from planner.requests import context_for, read_plan
from planner.teams.models import Role, Team
from tests.people import PLAN, Caller

pytestmark = pytest.mark.django_db

POOLS = "/api/v1/pools/"
LAB: dict[str, Any] = {
    "slug": "lab", "name": "The lab", "accelerator": "h100-sxm5-80gb", "node_type": "aws-p5-48xlarge", "count": 16,
    "usd_per_device_hour": 1.5,
}  # fmt: skip
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "slug": ({"slug": "../x"}, "/slug"),
    "slug type": ({"slug": 7}, "/slug"),
    "accelerator": ({"accelerator": "h1000"}, "/accelerator"),
    "ambiguous": ({"accelerator": "a100"}, "/accelerator"),
    "machine": ({"node_type": "none-such"}, "/node_type"),
    "other machine": ({"accelerator": "a100-sxm4-80gb"}, "/node_type"),
    "no devices": ({"count": 0}, "/count"),
    "true devices": ({"count": True}, "/count"),
    "many devices": ({"count": 10**9}, "/count"),
    "negative price": ({"usd_per_device_hour": -1}, "/usd_per_device_hour"),
    "unknown member": ({"colour": "red"}, "/colour"),
    "odd name": ({"name": "a\u0000"}, "/name"),
}


@pytest.fixture(autouse=True)
def catalog(db: None) -> None:
    call_command("load_catalog", verbosity=0)


@pytest.fixture
def editor(caller: Callable[..., Caller]) -> Caller:
    return caller("editor", role=Role.CATALOG_EDITOR)


def test_a_pool_is_made_read_changed_and_deleted(editor: Caller) -> None:
    made = editor.post(POOLS, LAB)
    assert (made.status_code, made["Location"]) == (201, f"{POOLS}lab/")
    read = editor.get(f"{POOLS}LAB/")
    assert {name: read.json()[name] for name in LAB} == LAB
    assert read["ETag"] == made["ETag"]
    changed = editor.call("PATCH", f"{POOLS}lab/", {"count": 8, "usd_per_device_hour": None}, If_Match=read["ETag"])
    assert (changed.json()["count"], changed.json()["usd_per_device_hour"]) == (8, None)
    assert changed["ETag"] != read["ETag"]
    same = editor.call("PATCH", f"{POOLS}lab/", {"count": 8}, If_Match=changed["ETag"])
    assert same["ETag"] == changed["ETag"]
    assert editor.call("DELETE", f"{POOLS}lab/", If_Match=changed["ETag"]).status_code == 204
    assert editor.get(f"{POOLS}lab/").status_code == 404
    actions = list(AuditEvent.objects.order_by("id").values_list("action", "person", "subject"))
    assert actions == [(f"pool.{deed}", "editor", "lab") for deed in ("created", "changed", "deleted")]
    change = AuditEvent.objects.get(action="pool.changed")
    assert change.changes == '{"count":[16,8],"usd_per_device_hour":[1.5,null]}'
    assert Pool.history.filter(slug="lab").count() == 3


def test_a_change_must_say_what_it_changes(editor: Caller) -> None:
    first = editor.post(POOLS, LAB)["ETag"]
    for method in ("PATCH", "DELETE"):
        assert editor.call(method, f"{POOLS}lab/", {"count": 8}).status_code == 428
    assert editor.call("PATCH", f"{POOLS}lab/", {"count": 8}, If_Match=f'"x", {first}').status_code == 200
    for stale in (first, f"W/{first}", '"x"', "x" * 5000):
        late = editor.call("PATCH", f"{POOLS}lab/", {"count": 4}, If_Match=stale)
        assert (late.status_code, late["Content-Type"]) == (412, "application/problem+json")
    assert editor.call("PATCH", f"{POOLS}lab/", {"count": 4}, If_Match="*").status_code == 200


@pytest.mark.parametrize("name", FAULTS)
def test_faults_have_pointers(editor: Caller, name: str) -> None:
    change, pointer = FAULTS[name]
    answer = editor.post(POOLS, {**LAB, **change})
    assert answer.status_code == 422
    assert pointer in {fault["pointer"] for fault in answer.json()["errors"]}
    assert not Pool.objects.exists()


def test_all_faults_come_at_once(editor: Caller) -> None:
    answer = editor.post(POOLS, {"slug": "-", "accelerator": "x", "count": "8"})
    assert {fault["pointer"] for fault in answer.json()["errors"]} == {"/slug", "/node_type", "/count"}
    named = editor.post(POOLS, {**LAB, "count": 0, "accelerator": "x"})
    assert {fault["pointer"] for fault in named.json()["errors"]} == {"/accelerator", "/count"}


def test_a_slug_is_taken_once_in_a_team_and_free_in_another(
    editor: Caller, caller: Callable[..., Caller], other_team: Team
) -> None:
    editor.post(POOLS, LAB)
    assert editor.post(POOLS, LAB).status_code == 409
    assert caller("theirs", role=Role.ADMIN, of=other_team).post(POOLS, LAB).status_code == 201


def test_a_plan_finds_its_teams_pool_and_no_other(
    editor: Caller, caller: Callable[..., Caller], team: Team, other_team: Team
) -> None:
    editor.post(POOLS, LAB)
    asked = {**PLAN, "hardware": {"pool": "lab", "max_count": 16}}
    pool = read_plan(asked, context_for(team)).pool
    assert pool is not None
    assert (pool.count, pool.usd_per_device_hour, pool.accelerator.slug) == (16, 1.5, "h100-sxm5-80gb")
    stranger = caller("stranger", of=other_team)
    foreign = stranger.post("/api/v1/plans/", asked).json()["errors"]
    unknown = stranger.post("/api/v1/plans/", {**asked, "hardware": {"pool": "lac"}}).json()["errors"]
    assert [fault["detail"].replace("lac", "lab") for fault in unknown] == [fault["detail"] for fault in foreign]
    assert foreign[0]["detail"].count("lab") == 1


def test_a_plan_on_a_pool_ends_with_options_that_can_be_estimated_and_launched(
    editor: Caller, caller: Callable[..., Caller], team: Team, other_team: Team
) -> None:
    editor.post(POOLS, LAB)
    made = editor.post("/api/v1/plans/", {**PLAN, "hardware": {"pool": "lab", "max_count": 16}}).json()
    plan_execute(plan_id=made["id"])
    answer = editor.get(f"/api/v1/plans/{made['id']}/").json()
    assert answer["status"] == "succeeded", answer
    best = answer["recommendation"]
    assert best["usd"] == pytest.approx(
        best["hours"] * LAB["usd_per_device_hour"] * best["estimate"]["hardware"]["count"]
    )
    alone = editor.post("/api/v1/estimates/", best["estimate"]).json()
    assert alone["time"]["step_seconds"] == best["step_seconds"]
    assert alone["memory"]["device_bytes"] == best["device_bytes"]
    assert alone["cost"]["usd_per_hour"] == best["usd_per_hour"]
    assert {"slurm", "kubernetes", "skypilot"} <= set(best["exports"])
    for link in best["exports"].values():
        assert editor.get(f"/api/v1/plans/{made['id']}/{link}").status_code == 200
    theirs = caller("nobody", of=other_team).post("/api/v1/estimates/", best["estimate"])
    assert [fault["pointer"] for fault in theirs.json()["errors"]] == ["/hardware/pool"]


@pytest.mark.parametrize(
    ("member", "value", "pointer"),
    [
        ("accelerator", "l4", "/hardware/pool"),
        ("node_type", "aws-p5-4xlarge", "/hardware/node_type"),
        ("offer", {"provider": "aws", "region": "x", "instance": "y"}, "/hardware/offer"),
        ("pool", "lac", "/hardware/pool"),
    ],
)
def test_an_estimate_on_a_pool_takes_nothing_that_the_pool_is_not(
    editor: Caller, member: str, value: Any, pointer: str
) -> None:
    editor.post(POOLS, LAB)
    hardware = {"accelerator": LAB["accelerator"], "pool": "lab", "count": 8}
    asked = {"model": "llama-2-7b", "hardware": hardware, "batch": {"sequence_length": 4096}}
    assert editor.post("/api/v1/estimates/", asked).status_code == 200
    refused = editor.post("/api/v1/estimates/", {**asked, "hardware": {**hardware, member: value}})
    assert pointer in [fault["pointer"] for fault in refused.json()["errors"]]


def test_a_pool_of_a_retired_device_is_kept_and_not_planned_with(editor: Caller, team: Team) -> None:
    editor.post(POOLS, LAB)
    Pool.objects.update(accelerator="gone")
    assert "lab" not in context_for(team).pools
    assert editor.get(f"{POOLS}lab/").status_code == 200
