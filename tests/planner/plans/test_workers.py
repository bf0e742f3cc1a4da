"""Real worker processes over a real broker: killed, cut off, started again; every plan ends once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from planner.plans.documents import plan_text
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.services import plan_create, plans_sweep
from planner.queue import PLAN_RUN, send
from planner.teams.models import Team
from planner.teams.services import team_embedded

pytestmark = [pytest.mark.postgresql, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[3]
SMALL = {
    "model": "llama-2-7b",
    "workload": {"tokens": 1_000_000_000, "sequence_length": 4096, "global_batch_tokens": 1_048_576},
    "hardware": {"accelerators": ["h100-sxm5-80gb"], "pricing": ["on-demand"], "max_count": 16},
    "engines": ["fsdp2"],
    "search": {"zero_stages": [3], "tp": [1], "pp": [1], "cp": [1], "ep": [1], "micro_batch_sizes": [1],
               "recompute": ["none"]},
    "options": 2,
}  # fmt: skip
HOLD = """
import sys, time
import django
django.setup()
from planner.plans import running
def held(problem, progress, cancelled):
    progress(0, 1)
    while time.sleep(0.2) is None:
        progress(0, 1)
        if cancelled():
            raise running.SearchCancelled
running.search = held
from planner.celery import app
app.worker_main(sys.argv[1:])
"""
"""A worker whose search never ends by itself, so that the kill lands in the middle of it."""


@pytest.fixture
def workers() -> Iterator[Callable[[str | None], subprocess.Popen[bytes]]]:
    """Starts a worker on the test database; ends what is still alive."""
    started: list[subprocess.Popen[bytes]] = []
    server = urlsplit(os.environ["DATABASE_URL"])
    url = f"{server.scheme}://{server.netloc}/{connection.settings_dict['NAME']}?{server.query}"
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "PLAN_LEASE_SECONDS": "2",
        "DJANGO_SETTINGS_MODULE": "planner.settings",
    }

    def start(script: str | None = None) -> subprocess.Popen[bytes]:
        head = ["-c", script] if script else ["-m", "celery", "--app=planner.celery"]
        options = ["worker", "--concurrency=1", "--queues=default", "--without-gossip", "--without-mingle"]
        process = subprocess.Popen([sys.executable, *head, *options], cwd=ROOT, env=environment, start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


@pytest.fixture
def home() -> Team:
    call_command("load_catalog", verbosity=0)
    return team_embedded()


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def state(run: PlanRun) -> PlanRun:
    run.refresh_from_db()
    return run


def test_a_worker_killed_in_mid_plan_leaves_it_to_the_next_one(
    home: Team, workers: Callable[..., subprocess.Popen[bytes]], settings: Any
) -> None:
    settings.PLAN_LEASE_SECONDS = 2
    victim = workers(HOLD)
    run, _ = plan_create(team=home, user=None, payload=SMALL)
    until(lambda: state(run).status == PlanStatus.RUNNING)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait(10)
    first_lease = state(run).lease
    workers()
    until(lambda: plans_sweep() >= 0 and state(run).is_final)
    assert (run.status, run.attempts) == (PlanStatus.SUCCEEDED, 2)
    assert first_lease is not None
    text, finished = plan_text(run), run.finished_at
    assert send(PLAN_RUN, run.pk)  # a late copy of the message, as a broker may deliver after a restart
    other, _ = plan_create(team=home, user=None, payload={**SMALL, "options": 1})
    until(lambda: state(other).is_final)
    assert (plan_text(state(run)), run.finished_at) == (text, finished)


def test_cancelling_stops_a_real_worker(home: Team, workers: Callable[..., subprocess.Popen[bytes]]) -> None:
    from planner.plans.services import plan_cancel  # noqa: PLC0415 - used by this test alone

    workers(HOLD)
    run, _ = plan_create(team=home, user=None, payload=SMALL)
    until(lambda: state(run).status == PlanStatus.RUNNING)
    plan_cancel(plan_id=run.pk, team=home)
    second, _ = plan_create(team=home, user=None, payload=SMALL)
    until(lambda: state(second).status == PlanStatus.RUNNING)
    assert state(run).status == PlanStatus.CANCELLED


def test_a_broker_that_is_away_costs_no_plan(home: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.celery import app  # noqa: PLC0415 - the queue imports it late, too

    with monkeypatch.context() as away:
        away.setattr(app.conf, "broker_url", "redis://127.0.0.1:1/0")
        away.setattr(app.conf, "broker_write_url", "redis://127.0.0.1:1/0")
        app.pool.force_close_all()
        begun = time.monotonic()
        run, created = plan_create(team=home, user=None, payload=SMALL)
        assert time.monotonic() - begun < 5  # noqa: PLR2004 - seconds; a hang would be minutes
        assert created
    assert PlanRun.objects.get(pk=run.pk).status == PlanStatus.QUEUED
    assert settings.CELERY_BROKER_TRANSPORT_OPTIONS["socket_connect_timeout"] <= 2  # noqa: PLR2004
