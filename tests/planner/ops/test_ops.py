"""Probes, metrics, checks, log lines, and jobs that run once for each period."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import structlog
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from planner import checks
from planner.ops.models import PeriodicJob
from planner.ops.periodic import period_claim
from planner.ops.schedule import SWEEP
from planner.plans.running import plan_execute
from planner.tasks import plan_run
from planner.teams.models import Team
from planner.validation.models import ValidationRun
from tests.people import PLAN, Caller

pytestmark = pytest.mark.django_db


def test_a_period_has_its_job_once() -> None:
    assert [period_claim("x", 60) for _ in range(3)] == [True, False, False]
    PeriodicJob.objects.update(ran_at=timezone.now() - timedelta(seconds=61))
    assert [period_claim("x", 60) for _ in range(2)] == [True, False]


def test_a_silent_worker_is_told_and_takes_no_server_out() -> None:
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert "heard" in answer.json()["checks"]["worker"]
    assert Client().get("/readyz?worker=required").status_code == 503
    period_claim(SWEEP, 5)
    answer = Client().get("/readyz?worker=required")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert set(answer.json()["checks"]) == {"database", "migrations", "broker", "worker"}


def test_a_database_that_is_away_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def away(*_: object, **__: object) -> None:
        asked.append(1)
        raise OperationalError

    monkeypatch.setattr("django.db.backends.base.base.BaseDatabaseWrapper.cursor", away)
    answer = Client().get("/readyz")
    checks = answer.json()["checks"]
    assert (answer.status_code, len(asked)) == (503, 1)
    assert {checks[name].partition(":")[0] for name in ("migrations", "worker")} == {"Not known"}


def test_a_broker_that_is_away_is_told(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["broker"]) == (503, "The broker does not answer.")
    assert answer["Retry-After"]


@pytest.mark.parametrize(("token", "sent"), [(None, ""), (None, "x"), ("right", ""), ("right", "wrong"), ("", "")])
def test_metrics_are_closed_unless_meant(settings: Any, token: str | None, sent: str) -> None:
    settings.METRICS_TOKEN = token
    assert Client().get("/metrics", headers={"Authorization": f"Bearer {sent}"}).status_code == 404


@pytest.mark.usefixtures("quick_search", "rings")
def test_metrics_count_what_happened(owner: Caller, settings: Any) -> None:
    settings.METRICS_TOKEN = "right"

    def read() -> dict[str, float]:
        text = Client().get("/metrics", headers={"Authorization": "Bearer right"}).content.decode()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines())
                if name and not name.startswith("#")}  # fmt: skip

    before = read()
    ids = [owner.post("/api/v1/plans/", PLAN).json()["id"] for _ in range(3)]
    plan_execute(plan_id=UUID(ids[0]))
    owner.post("/api/v1/estimates/", {})
    user = User.objects.get(username="owner")
    ValidationRun.objects.create(team=Team.objects.get(slug="ours"), owner=user, kind="gpu", request="{}")
    after = read()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown['shardplan_queue_depth{status="queued"}'] == 2
    assert grown['shardplan_validation_queue_depth{status="queued"}'] == 1
    assert grown["shardplan_validation_queue_oldest_seconds"] > 0
    assert grown['shardplan_plans_ended_total{status="succeeded"}'] == 1
    assert grown['shardplan_estimates_total{outcome="invalid_request"}'] == 1
    assert grown["shardplan_candidates_total"] == 5
    assert grown['shardplan_plan_seconds_bucket{le="+Inf"}'] == grown["shardplan_plan_seconds_count"] == 1


CHECKS: list[tuple[str, Any, Callable[[], list[Any]], str | None]] = [
    ("PLAN_LEASE_SECONDS", 1, checks.check_lease, "planner.E002"),
    ("PLAN_LEASE_SECONDS", 30, checks.check_lease, None),
    ("WEBHOOK_NETWORKS", ["10.0.0.1/8"], checks.check_webhook_networks, "planner.E003"),
    ("WEBHOOK_NETWORKS", ["::/0"], checks.check_webhook_networks, "planner.W002"),
    ("WEBHOOK_NETWORKS", ["10.0.0.0/8"], checks.check_webhook_networks, None),
    ("METRICS_TOKEN", "short", checks.check_metrics_token, "planner.E004"),
    ("METRICS_TOKEN", "x" * 40, checks.check_metrics_token, None),
    ("REDIS_URL", "redis://127.0.0.1:1/0", checks.check_broker_keeps_its_keys, None),
]


@pytest.mark.parametrize(("name", "value", "check", "wanted"), CHECKS)
def test_settings_that_are_wrong_together(
    settings: Any, name: str, value: Any, check: Callable[[], list[Any]], wanted: str | None
) -> None:
    setattr(settings, name, value)
    assert [found.id for found in check()] == ([wanted] if wanted else [])


def test_a_production_set_up_passes_the_deployment_checks(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    settings.SECURE_HSTS_SECONDS = 31_536_000
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = settings.SECURE_HSTS_PRELOAD = True
    settings.SECRET_KEY = "k" * 30 + "0123456789abcdefghijKLMNOP" + "-_" * 8
    found = [message for message in run_checks(include_deployment_checks=True) if message.id != "planner.W001"]
    assert found == []


@pytest.fixture
def lines() -> Iterator[Callable[[], list[str]]]:
    """What is logged meanwhile, line by line."""
    handler = next(found for found in logging.getLogger("django_structlog").handlers if found.name == "stream")
    assert isinstance(handler, logging.StreamHandler)
    written = io.StringIO()
    usual = handler.setStream(written)
    yield lambda: written.getvalue().splitlines()
    handler.setStream(usual)


def test_log_lines_hold_no_secret_and_stay_one_line(owner: Caller, lines: Callable[[], list[str]]) -> None:
    owner.get("/api/v1/plans/?q=a%0Ab", X_Request_ID="line-1")
    found = [line for line in lines() if "line-1" in line]
    assert found
    assert all(line.startswith("{") and line.endswith("}") for line in found)
    assert not any(owner.token in line or owner.token[5:25] in line for line in found)


def test_nothing_that_a_client_wrote_beside_the_path_is_logged(
    owner: Caller, lines: Callable[[], list[str]], settings: Any
) -> None:
    secret = "sekrit-0123456789"
    headers = dict.fromkeys(
        ("User_Agent", "Cookie", "X_Api_Key", "X_Correlation_ID", "X_Forwarded_For", "Idempotency_Key"), secret
    )
    owner.post(f"/api/v1/plans/?token={secret}", {"password": secret}, **headers)
    owner.post("/api/v1/estimates/", {"model": secret, secret: secret}, **headers)
    owner.get(f"/api/v1/plans/{uuid4()}/?api_key={secret}", **headers)
    assert len(lines()) >= 6
    assert [line for line in lines() if secret in line] == []
    settings.BEHIND_TLS_PROXY = True
    owner.get("/api/v1/plans/", X_Forwarded_For="10.9.9.9, 203.0.113.7")
    assert '"ip": "203.0.113.7"' in lines()[-1], "the proxy's word, and the last one only"


@pytest.mark.usefixtures("quick_search", "rings")
def test_a_tasks_lines_name_their_job(owner: Caller) -> None:
    plan = owner.post("/api/v1/plans/", PLAN).json()["id"]
    plan_run(plan)
    assert structlog.contextvars.get_contextvars()["job"] == plan
    structlog.contextvars.clear_contextvars()


def test_counters_are_there_before_they_count(settings: Any) -> None:
    settings.METRICS_TOKEN, settings.REDIS_PREFIX = "right", f"unused-{uuid4()}:"
    text = Client().get("/metrics", headers={"Authorization": "Bearer right"}).content.decode()
    assert 'shardplan_estimates_total{outcome="internal_error"} 0\n' in text
    assert 'shardplan_plans_ended_total{status="failed"} 0\n' in text
    assert 'shardplan_plan_seconds_bucket{le="0.5"} 0\n' in text
