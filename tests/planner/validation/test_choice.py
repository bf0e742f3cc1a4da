"""The kind a configuration gets when nobody names one."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.utils import timezone

from planner.errors import InvalidRequest, NotFound
from planner.plans.models import PlanRun
from planner.teams.models import Team
from planner.validation.choice import by_worth, chosen_case
from planner.validation.services import validation_of_option
from planner.validation.shipped import request
from tests.people import Caller
from tests.planner.validation.payloads import IMPORT, case


def kind_of(payload: Any) -> str:
    return chosen_case(payload, case).kind.name


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (request("fsdp2", 3, 64), "dry-run"),
        (request("ddp", 0, 1, precision="bf16-pure"), "dry-run"),
        (request("fsdp1", 3, 8), "cpu"),
        (request("fsdp2", 3, 8, parallelism={"dp_shard": 4, "pp": 2}), "cpu"),
        (request("fsdp2", 3, 8, adapter={"method": "lora", "rank": 8}), "shapes"),
        (request("megatron", 1, 8, parallelism={"tp": 8}, precision="bf16-master"), "shapes"),
    ],
)
def test_the_cheapest_kind_that_confirms_most(asked: dict[str, Any], kind: str) -> None:
    assert kind_of({"request": asked}) == kind


def test_members_of_one_kind_name_it() -> None:
    assert kind_of({"request": IMPORT["request"], "measured": IMPORT["measured"]}) == "import"
    asked = {"request": request("fsdp2", 3, 8), "options": {"seeds": 2}}
    assert kind_of(asked) == "convergence"
    assert [kind.name for kind in by_worth()] == ["dry-run", "cpu", "shapes"]


def test_what_was_passed_over_is_said() -> None:
    notes = chosen_case({"request": request("fsdp1", 3, 8)}, case).notes
    assert notes[0].startswith("not dry-run: dry-run runs ddp, fsdp2")


def test_what_nobody_can_run_gets_the_faults_of_the_best_kind() -> None:
    with pytest.raises(InvalidRequest) as caught:
        kind_of({"request": request("fsdp2", 3, 8, model={"parameters": 10**9})})
    assert ("/request/model", "config_required") in [(fault.pointer, fault.code) for fault in caught.value.faults]
    with pytest.raises(InvalidRequest):
        kind_of([])


@pytest.mark.django_db
def test_an_option_of_a_plan_is_measured(team: Team, owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.queue.send", lambda task, row: True)
    call_command("load_catalog", verbosity=0)
    answer = {"options": [{"rank": 1, "estimate": request("fsdp1", 3, 8)}]}
    plan = PlanRun.objects.create(
        team=team, request="{}", request_digest="x", status="succeeded", answer=json.dumps(answer),
        finished_at=timezone.now(),
    )  # fmt: skip
    run = validation_of_option(team=team, user=None, plan_id=plan.pk, rank=1)
    assert run.kind == "cpu"
    assert validation_of_option(team=team, user=None, plan_id=plan.pk, rank=1, kind="shapes").kind == "shapes"
    for plan_id, rank in ((plan.pk, 2), (uuid4(), 1)):
        with pytest.raises(NotFound):
            validation_of_option(team=team, user=None, plan_id=plan_id, rank=rank)
    accepted = owner.post("/api/v1/validations/", {"request": request("fsdp1", 3, 8)})
    assert (accepted.status_code, accepted.json()["kind"]) == (202, "cpu")
