"""A validation's life and its doors: asked for, run once, compared, stored, counted, learnt from."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.utils import timezone

from planner.jobs.leases import MAX_ATTEMPTS
from planner.requests import context_for, read_estimate
from planner.teams.models import Team
from planner.validation.models import ValidationRun, ValidationStatus
from planner.validation.running import validation_execute
from planner.validation.services import validation_cancel, validation_claim, validation_create, validations_sweep
from planner.validation.shipped import CASES, request
from tests.people import Caller
from tests.planner.validation import stand_ins
from tests.planner.validation.payloads import IMPORT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalog", "bell")]

DOOR = "/api/v1/validations/"
SHAPES = {"kind": "shapes", "request": request("fsdp2", 3, 8)}
GPU = {"kind": "gpu", "request": request("ddp", 0, 1, precision="bf16-pure")}


@pytest.fixture
def catalog(db: None) -> None:
    call_command("load_catalog", verbosity=0)


@pytest.fixture
def bell(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What was rung for, in place of a broker."""
    rung: list[tuple[str, Any]] = []

    def send(task: str, row: object) -> bool:
        rung.append((task, row))
        return True

    monkeypatch.setattr("planner.queue.send", send)
    monkeypatch.setattr("planner.validation.services.send", send)
    return rung


def made(team: Team, payload: object = IMPORT, **more: Any) -> ValidationRun:
    run, _ = validation_create(team=team, user=None, payload=payload, **more)
    return run


def ended(run: ValidationRun) -> ValidationRun:
    assert validation_execute(validation_id=run.pk)
    run.refresh_from_db()
    return run


def let_lease_end(run: ValidationRun) -> None:
    past = timezone.now() - timedelta(seconds=1)
    ValidationRun.objects.filter(pk=run.pk).update(lease_until=past, send_after=past)


def test_an_import_is_compared_and_stored_with_its_columns(team: Team) -> None:
    run = ended(made(team))
    answer = json.loads(run.answer)
    lines = {line["line"]: line for line in answer["comparison"]["lines"]}
    assert run.status == ValidationStatus.SUCCEEDED
    assert lines["peak_allocated_bytes"]["measured"] == 40_000_000_000
    assert lines["peak_allocated_bytes"]["predicted"] == run.predicted_bytes
    assert (run.measured_bytes, run.measured_seconds, run.framework) == (40_000_000_000, 2.5, "torch 2.13.0")
    assert run.agrees is False
    assert answer["comparison"]["outliers"]
    assert answer["request"] == IMPORT["request"]


def test_the_same_key_gives_the_first_one(team: Team) -> None:
    assert made(team, idempotency_key="k").pk == made(team, idempotency_key="k").pk


def test_each_kind_rings_on_its_own_queue(
    team: Team, bell: list[tuple[str, Any]], django_capture_on_commit_callbacks: Any, settings: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        made(team)
        made(team, GPU)
    assert [task for task, _ in bell] == ["planner.validation_run", "planner.gpu.validation_run"]
    from planner.celery import app  # noqa: PLC0415 - as the queue does

    queues = [app.amqp.router.route({}, task)["queue"].name for task, _ in bell]
    assert queues == ["validation", "gpu"]


def test_a_second_copy_of_the_message_does_nothing(team: Team) -> None:
    run = ended(made(team))
    assert not validation_execute(validation_id=run.pk)


def test_without_the_extra_the_run_fails_and_says_how_to_get_it(team: Team, settings: Any) -> None:
    settings.VALIDATION_PYTHON = "/no/such/python"
    run = ended(made(team, SHAPES))
    assert (run.status, run.error_code) == (ValidationStatus.FAILED, "extra_missing")
    assert "pip install -r planner/validation/requirements.txt" in run.error_detail


def test_a_limit_ends_it_failed_with_the_reason(team: Team, settings: Any, tmp_path: Path) -> None:
    settings.VALIDATION_PYTHON = stand_ins.interpreter(tmp_path, stand_ins.SLEEP)
    settings.VALIDATION_SECONDS = 1
    run = ended(made(team, SHAPES))
    assert (run.status, run.error_code) == (ValidationStatus.FAILED, "time_limit")


def test_cancelling_kills_the_measurement(
    team: Team, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.VALIDATION_PYTHON = stand_ins.interpreter(tmp_path, stand_ins.SLEEP)
    monkeypatch.setattr("planner.validation.running.HEARTBEAT_SECONDS", 0.0)
    run = made(team, SHAPES)

    def watcher(progress: float) -> None:
        validation_cancel(validation_id=run.pk, team=team)

    assert not validation_execute(validation_id=run.pk, watcher=watcher)
    run.refresh_from_db()
    assert run.status == ValidationStatus.CANCELLED


def test_a_fault_of_ours_ends_it_failed_without_its_text(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("planner.validation.running.compared", broken)
    run = ended(made(team))
    assert (run.status, run.error_code) == (ValidationStatus.FAILED, "internal_error")
    assert "secret" not in run.error_detail


def test_lost_workers_leave_it_to_others_and_then_end_it(team: Team, bell: list[tuple[str, Any]]) -> None:
    run = made(team, GPU)
    for _ in range(MAX_ATTEMPTS):
        assert validation_claim(validation_id=run.pk)
        let_lease_end(run)
        bell.clear()
        validations_sweep()
    assert bell == []
    run.refresh_from_db()
    assert (run.status, run.error_code) == (ValidationStatus.FAILED, "worker_lost_repeatedly")
    assert "validation" in run.error_detail


def test_the_sweeper_rings_on_the_kinds_queue(team: Team, bell: list[tuple[str, Any]]) -> None:
    run = made(team, GPU)
    let_lease_end(run)
    assert validations_sweep() == 1
    assert bell == [("planner.gpu.validation_run", run.pk)]
    assert validations_sweep() == 0


def test_the_doors(owner: Caller, stranger: Caller, caller: Callable[..., Caller]) -> None:
    accepted = owner.post(DOOR, IMPORT)
    assert accepted.status_code == 202
    path = accepted["Location"]
    assert path == f"{DOOR}{accepted.json()['id']}/"
    assert stranger.get(path).status_code == 404
    validation_execute(validation_id=UUID(accepted.json()["id"]))
    read = owner.get(path).json()
    assert (read["status"], read["progress"], read["comparison"]["agrees"]) == ("succeeded", 1.0, False)
    assert owner.call("DELETE", path).status_code == 409
    listed = owner.get(f"{DOOR}?kind=import&status=succeeded").json()["results"]
    assert [row["id"] for row in listed] == [read["id"]]
    assert owner.get(f"{DOOR}?kind=nothing").status_code == 400
    assert stranger.get(DOOR).json()["results"] == []
    assert caller("looker", "viewer").post(DOOR, IMPORT).status_code == 403
    (row,) = owner.get(f"{DOOR}statistics/").json()["results"]
    assert (row["kind"], row["sharding_engine"], row["runs"], row["agree"]) == ("import", "fsdp2", 1, 0)


def test_faults_come_all_at_once_under_the_requests_own_pointer(owner: Caller) -> None:
    answer = owner.post(DOOR, {"kind": "cpu", "request": {**SHAPES["request"], "optimizer": "x", "precision": "y"}})
    assert answer.status_code == 422
    pointers = {fault["pointer"] for fault in answer.json()["errors"]}
    assert pointers == {"/request/optimizer", "/request/precision"}


def test_the_command_runs_a_file_and_tells_whether_it_agrees(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(IMPORT))
    out, truth = StringIO(), tmp_path / "truth.csv"
    with pytest.raises(SystemExit) as ended_with:
        call_command("validate", str(file), "--truth", str(truth), stdout=out)
    assert ended_with.value.code == 1
    assert "DISAGREES" in out.getvalue()
    rows = truth.read_text().splitlines()
    assert rows[0].startswith("id,request,quantity,expected")
    assert len(rows) == 3


def test_one_command_measures_every_configuration_for_a_device_and_writes_its_rows(
    tmp_path: Path, settings: Any
) -> None:
    settings.VALIDATION_PYTHON = stand_ins.interpreter(tmp_path, stand_ins.DEVICE)
    out, truth = StringIO(), tmp_path / "truth.csv"
    with pytest.raises(SystemExit):
        call_command("validate", "--case", "gpu-matrix", "--truth", str(truth), stdout=out)
    with truth.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["id"] for row in rows}) == len(list(CASES["gpu-matrix"][1]())) >= 12
    assert {row["quantity"] for row in rows} >= {"peak_allocated_bytes", "device_bytes", "step_seconds"}
    assert {row["source"] for row in rows} == {"torch 9.9.9 device double"}
    for row in rows[:20]:
        assert read_estimate(json.loads(row["request"]), context_for(None)).recipe.engine.value == "ddp"
    assert ValidationRun.objects.filter(measured_bytes=5, measured_seconds=0.5).count() >= 12


def test_the_command_lists_its_cases() -> None:
    out = StringIO()
    call_command("validate", "--list", stdout=out)
    assert "cpu-matrix" in out.getvalue()
