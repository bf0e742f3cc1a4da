"""What only a browser can tell: accessible, no policy report, no sideways scrolling, progress that ends by itself.

Runs where a Chromium is installed (CHROMIUM names it); elsewhere these tests are skipped by name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from planner.plans.models import PlanRun, PlanStatus
from planner.teams.models import Role, Team
from planner.teams.services import membership_set, team_create
from tests.planner.web import answers

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZES = ((1280, "light"), (1280, "dark"), (320, "light"))

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (CHROMIUM names one)"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a development tool, absent where this is skipped

    # Playwright runs an event loop in this thread, and Django then refuses every query.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def visit(chromium: Any, live_server: Any, django_user_model: Any, monkeypatch: Any) -> Iterator[Callable[..., Any]]:
    monkeypatch.setattr("planner.web.choices.accelerator_names", lambda: answers.NAMES)
    user = django_user_model.objects.create_user("ada")
    team = team_create(slug="ours", name="Ours")
    membership_set(team=team, user=user, role=Role.PLANNER)
    client = Client()
    client.force_login(user)
    opened = []

    def open_page(width: int, scheme: str) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        cookie = {"name": settings.SESSION_COOKIE_NAME, "value": client.cookies[settings.SESSION_COOKIE_NAME].value}
        context.add_cookies([cookie | {"url": live_server.url}])
        opened.append(context)
        return context.new_page()

    yield open_page
    for context in opened:
        context.close()


def stored(status: str, answer: Any = None, **more: Any) -> PlanRun:
    final = status not in (PlanStatus.QUEUED, PlanStatus.RUNNING)
    return PlanRun.objects.create(
        team=Team.objects.get(slug="ours"),
        request=json.dumps(answers.PLAN_REQUEST),
        request_digest="0" * 64,
        status=status,
        answer="" if answer is None else json.dumps(answer),
        finished_at=timezone.now() if final else None,
        **more,
    )


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_pages_are_accessible_and_fit_the_screen(visit: Any, live_server: Any, width: int, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - a development tool

    plan = stored(PlanStatus.SUCCEEDED, answers.plan_answer())
    nothing = stored(PlanStatus.INFEASIBLE, answers.infeasible_answer())
    waits = stored(PlanStatus.QUEUED)
    paths = ["/", "/plans/new/", "/calculator/", "/keys/", *(f"/plans/{run.pk}/" for run in (plan, nothing, waits))]
    for path in paths:
        reports: list[str] = []
        page = visit(width, scheme)
        page.on("console", lambda message, into=reports: into.append(message.text) if message.type == "error" else None)
        page.goto(live_server.url + path)
        assert reports == [], path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        found = Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_running_page_shows_the_answer_without_a_reload(visit: Any, live_server: Any) -> None:
    page = visit(1280, "light")
    run = stored(PlanStatus.RUNNING, lease=uuid4(), candidates_done=5, candidates_total=10)
    page.goto(f"{live_server.url}/plans/{run.pk}/")
    assert "5 of 10 candidates" in page.inner_text("#progress")
    PlanRun.objects.filter(pk=run.pk).update(
        status=PlanStatus.SUCCEEDED, answer=json.dumps(answers.plan_answer()), finished_at=timezone.now(), lease=None
    )
    page.wait_for_selector(".stats", timeout=10_000)
    assert "36.2" in page.inner_text(".stats")
    assert page.locator("[hx-get]").count() == 0
