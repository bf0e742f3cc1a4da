"""Launch files through the API: whole files with their own media type, 404 and 409 as problems."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from planner.plans.exports import export_links
from planner.plans.models import PlanRun, PlanStatus
from planner.search import search
from tests.people import Caller
from tests.planner.requests.samples import CONTEXT
from tests.planner.search.problems import problem_of

pytestmark = pytest.mark.django_db
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def run(owner: Caller, team: Any, monkeypatch: pytest.MonkeyPatch) -> PlanRun:
    """A finished plan of the owner's team, its answer as the search gives it."""
    monkeypatch.setattr("planner.plans.exports.context_for", lambda team: CONTEXT)
    answer = search(problem_of(), lambda done, total: None, lambda: False)
    return PlanRun.objects.create(
        team=team,
        request="{}",
        request_digest="0" * 64,
        status=PlanStatus.SUCCEEDED,
        answer=json.dumps(answer),
        engine_version="0.1.0",
        finished_at=timezone.now(),
    )


def address(run: PlanRun, key: str, rank: int = 1) -> str:
    return f"/api/v1/plans/{run.pk}/options/{rank}/exports/{key}/"


def test_a_file_comes_whole_with_its_name(owner: Caller, run: PlanRun) -> None:
    answer = owner.get(address(run, "slurm"))
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/x-shellscript")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert f'filename="shardplan-{str(run.pk)[:8]}-1-slurm.sbatch"' in answer["Content-Disposition"]
    assert answer.content.decode().startswith("#!/usr/bin/env bash\n")


def test_the_links_of_an_option_lead_to_files(owner: Caller, run: PlanRun) -> None:
    option = json.loads(run.answer)["options"][0]
    links = export_links(option, run, CONTEXT, 10**9)
    assert {"slurm", "accelerate-fsdp", "kubernetes"} <= set(links)
    for link in links.values():
        assert owner.get(f"/api/v1/plans/{run.pk}/{link}").status_code == 200


@pytest.mark.parametrize(("key", "rank"), [("terraform", 1), ("slurm", 0), ("slurm", 99)])
def test_what_is_not_there_is_404(owner: Caller, run: PlanRun, key: str, rank: int) -> None:
    answer = owner.get(address(run, key, rank))
    assert answer.status_code == 404
    assert answer["Content-Type"].startswith("application/problem+json")


def test_another_team_has_no_such_plan(stranger: Caller, run: PlanRun) -> None:
    assert stranger.get(address(run, "slurm")).status_code == 404


def test_a_format_that_cannot_say_it_is_409(owner: Caller, run: PlanRun) -> None:
    answer = json.loads(run.answer)
    option = answer["options"][0]
    option["estimate"]["hardware"]["count"] = 8
    option["estimate"]["parallelism"] |= {"dp_replicate": 1, "dp_shard": 4, "tp": 2}
    option["nodes"] = 1
    run.answer = json.dumps(answer)
    run.save()
    refused = owner.get(address(run, "deepspeed"))
    assert refused.status_code == 409
    assert "tp" in json.loads(refused.content)["detail"]


def test_a_plan_without_options_has_no_files(owner: Caller, team: Any) -> None:
    waiting = PlanRun.objects.create(team=team, request="{}", request_digest="1" * 64)
    assert owner.get(address(waiting, "slurm")).status_code == 404
