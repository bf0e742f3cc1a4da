"""The one-file client against the real service on a real socket."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django.live_server_helper import LiveServer

from planner.plans.running import plan_execute
from planner.teams.models import Team
from tests.people import PLAN, Caller

FILE = Path(__file__).resolve().parents[2] / "clients" / "python" / "shardplan_client.py"
ESTIMATE = {"model": "llama-2-7b", "hardware": {"accelerator": "h100-sxm5-80gb"}, "batch": {"sequence_length": 4096}}

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def client_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shardplan_client", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["shardplan_client"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def service(client_module: ModuleType, live_server: LiveServer, owner: Caller) -> Iterator[Any]:
    with client_module.Shardplan(live_server.url, owner.token, patience_seconds=2) as opened:
        yield opened


def test_estimates_one_by_one_and_many(service: Any, client_module: ModuleType) -> None:
    call_command("load_catalog", verbosity=0)
    single = service.estimate(ESTIMATE)
    assert single["memory"]["device_bytes"] > 0
    good, bad = service.estimates([ESTIMATE, {}])
    assert good == single
    assert bad["error"]["status"] == 422
    with pytest.raises(client_module.ShardplanError) as caught:
        service.estimate({**ESTIMATE, "model": "none-such"})
    assert (caught.value.status, caught.value.code) == (422, "invalid_request")
    assert caught.value.faults[0]["pointer"] == "/model"
    assert len({row["slug"] for row in service.rows("models", page_size=50)}) > 100


@pytest.mark.usefixtures("quick_search")
def test_a_plan_from_its_request_to_its_answer(
    service: Any, client_module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.plans.services.enqueue_on_commit", lambda task, row: None)
    made = service.plan_create(PLAN, key="k")
    assert service.plan_create(PLAN, key="k")["id"] == made["id"]
    with pytest.raises(TimeoutError):
        service.plan_wait(made["id"], timeout_seconds=0.1)
    plan_execute(plan_id=made["id"])
    assert service.plan_wait(made["id"])["status"] == "succeeded"
    with pytest.raises(client_module.ShardplanError) as caught:
        service.plan_cancel(made["id"])
    assert caught.value.code == "plan_final"
    other = service.plan_create({**PLAN, "options": 9})
    assert service.plan_cancel(other["id"])["status"] == "cancelled"
    assert [plan["id"] for plan in service.plan_compare([made["id"], other["id"]])["plans"]] == [
        made["id"],
        other["id"],
    ]
    assert {row["id"] for row in service.rows("plans", page_size=1)} == {made["id"], other["id"]}


def test_what_cannot_be_reached_is_told_in_time(client_module: ModuleType, team: Team) -> None:
    nowhere = client_module.Shardplan("http://127.0.0.1:1", "x", patience_seconds=0.5)
    with pytest.raises(OSError):
        nowhere.plan_get("x")
    with pytest.raises(ValueError, match="address"):
        client_module.Shardplan("ftp://example.org", "x")
