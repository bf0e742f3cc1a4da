"""Real worker processes: one that is killed in mid-validation leaves nothing running, and another ends the job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.db import connection

from planner.teams.services import team_embedded
from planner.validation.models import ValidationRun, ValidationStatus
from planner.validation.services import validation_create, validations_sweep
from planner.validation.shipped import request
from tests.planner.validation import stand_ins
from tests.planner.validation.test_child import children

pytestmark = [pytest.mark.postgresql, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[3]
Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def workers() -> Iterator[Start]:
    """Starts a worker of the validation queue on the test database, with an interpreter; ends what is still alive."""
    started: list[subprocess.Popen[bytes]] = []
    server = urlsplit(os.environ["DATABASE_URL"])
    url = f"{server.scheme}://{server.netloc}/{connection.settings_dict['NAME']}?{server.query}"

    def start(python: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "DATABASE_URL": url,
            "PLAN_LEASE_SECONDS": "2",
            "VALIDATION_PYTHON": python,
            "DJANGO_SETTINGS_MODULE": "planner.settings",
        }
        options = ["worker", "--concurrency=1", "--queues=validation", "--without-gossip", "--without-mingle"]
        command = [sys.executable, "-m", "celery", "--app=planner.celery", *options]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def until(condition: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def state(run: ValidationRun) -> ValidationRun:
    run.refresh_from_db()
    return run


def test_a_worker_killed_in_mid_validation_leaves_nothing_running(workers: Start, tmp_path: Path) -> None:
    call_command("load_catalog", verbosity=0)
    for name, script in (("holds", stand_ins.HOLDS), ("counts", stand_ins.COUNTS)):
        (tmp_path / name).mkdir()
        stand_ins.interpreter(tmp_path / name, script)
    before = children()
    victim = workers(str(tmp_path / "holds" / "python"))
    run, _ = validation_create(
        team=team_embedded(), user=None, payload={"kind": "shapes", "request": request("fsdp2", 3, 8)}
    )
    until(lambda: bool(children() - before) and state(run).progress > 0)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait(10)
    until(lambda: children() <= before, 10)
    assert state(run).status == ValidationStatus.RUNNING
    workers(str(tmp_path / "counts" / "python"))
    until(lambda: validations_sweep() >= 0 and state(run).is_final)
    assert (run.status, run.attempts, run.agrees) == (ValidationStatus.SUCCEEDED, 2, False)
