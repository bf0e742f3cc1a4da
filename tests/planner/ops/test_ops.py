"""Probes, metrics, checks, log lines, and jobs that run once for each period."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.checks import run_checks
from django.test import Client
from django.utils import timezone

from planner import checks
from planner.ops.models import PeriodicJob
from planner.ops.periodic import period_claim
from planner.ops.schedule import SWEEP
from planner.plans.running import plan_execute
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
    after = read()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown['shardplan_queue_depth{status="queued"}'] == 2
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


def test_log_lines_hold_no_secret_and_stay_one_line(owner: Caller) -> None:
    handler = next(found for found in logging.getLogger("django_structlog").handlers if found.name == "stream")
    assert isinstance(handler, logging.StreamHandler)
    written = io.StringIO()
    usual = handler.setStream(written)
    try:
        owner.get("/api/v1/plans/?q=a%0Ab", X_Request_ID="line-1")
    finally:
        handler.setStream(usual)
    lines = [line for line in written.getvalue().splitlines() if "line-1" in line]
    assert lines
    assert all(line.startswith("{") and line.endswith("}") for line in lines)
    assert not any(owner.token in line or owner.token[5:25] in line for line in lines)
