"""What only a browser can tell: accessible, no policy report, no sideways scrolling, progress that ends by itself.

Runs where a Chromium is installed (CHROMIUM names it); elsewhere these tests are skipped by name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from hardware.loader import catalog_load
from planner.plans.models import PlanRun, PlanStatus
from planner.pools.models import Pool
from planner.specs.loader import models_load
from planner.specs.models import ModelSpec
from planner.teams.models import Role, Team
from planner.teams.services import membership_set, team_create
from planner.validation.models import ValidationRun, ValidationStatus
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
WIDEST = 2560
MOST_HEALTH_CHECKS = 60
"""The calculator's change-to-paint over the latency of /healthz, the wait for the next key aside."""
SIZES = ((1280, "light"), (1280, "dark"), (320, "light"), (320, "dark"), (WIDEST, "light"))

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (CHROMIUM names one)"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is a development tool"),
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


def catalog() -> None:
    """The shipped catalog and models, a pool and a measurement: so that no page is empty."""
    catalog_load()
    models_load()
    team = Team.objects.get(slug="ours")
    Pool.objects.create(
        team=team, slug="ours", accelerator="h100-sxm5-80gb", node_type="aws-p5-48xlarge", count=64,
        usd_per_device_hour=1.5,
    )  # fmt: skip
    ValidationRun.objects.create(
        team=team, kind="cpu", request="{}", request_digest="0" * 64, status=ValidationStatus.SUCCEEDED, answer="{}",
        finished_at=timezone.now(), model="llama-3-8b", sharding_engine="fsdp2", predicted_bytes=11 << 30,
        measured_bytes=10 << 30, agrees=False,
    )  # fmt: skip


def paths() -> list[str]:
    """Every page of the dashboard, with something on it."""
    plan = stored(PlanStatus.SUCCEEDED, answers.plan_answer())
    nothing = stored(PlanStatus.INFEASIBLE, answers.infeasible_answer())
    waits = stored(PlanStatus.QUEUED)
    return [
        "/",
        "/plans/new/",
        *(f"/plans/{run.pk}/" for run in (plan, nothing, waits)),
        "/plans/new/?preset=pretrain-70b",
        f"/plans/{plan.pk}/options/1/explain/activations/",
        f"/plans/{plan.pk}/options/1/explain/cost/",
        f"/plans/{plan.pk}/options/1/exports/",
        f"/compare/?with={plan.pk}.1&with={plan.pk}.2",
        "/calculator/?accelerator=h100-sxm5-80gb&model=llama-3-8b&count=16&engine=megatron&pp=2",
        "/hardware/?find=h100",
        "/hardware/h100-sxm5-80gb/",
        "/hardware/nodes/?find=p5",
        "/hardware/links/",
        "/hardware/nodes/aws-p5-48xlarge/",
        "/hardware/pools/",
        "/hardware/pools/ours/",
        "/hardware/pools/new/",
        "/models/?find=llama-3",
        "/models/llama-3.1-8b/",
        "/models/import/",
        "/optimizers/?find=adamw",
        "/optimizers/adamw-8bit/",
        "/validations/",
        "/team/",
        "/keys/",
        "/no-such-page/",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_pages_are_accessible_and_fit_the_screen(visit: Any, live_server: Any, width: int, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - a development tool

    catalog()
    for path in paths():
        reports: list[str] = []
        page = visit(width, scheme)
        page.on("console", lambda message, into=reports: into.append(message.text) if message.type == "error" else None)
        page.on(
            "request",
            lambda request, into=reports: (
                None if request.url.startswith((live_server.url, "data:")) else into.append(request.url)
            ),
        )
        page.goto(live_server.url + path)
        assert [line for line in reports if "404" not in line] == [], path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        if width < WIDEST:
            found = Axe().run(page)
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        page.close()


def test_calculator_moves_with_a_knob_and_its_address_says_the_same(visit: Any, live_server: Any) -> None:
    catalog()
    page = visit(1280, "light")
    page.goto(f"{live_server.url}/calculator/?accelerator=h100-sxm5-80gb&model=llama-3-8b&count=8")
    before = page.inner_text("#answer .say")
    page.fill("#sequence_length", "8192")
    page.wait_for_function("before => document.querySelector('#answer .say').innerText !== before", arg=before)
    after = page.inner_text("#answer .say")
    assert "sequence_length=8192" in page.url
    page.reload()
    assert page.inner_text("#answer .say") == after


PAINTED = """async ([id, value]) => {
  const field = document.getElementById(id), answer = document.getElementById("answer");
  const changed = new Promise((done) => {
    new MutationObserver((_, watcher) => { watcher.disconnect(); requestAnimationFrame(() => done()); })
      .observe(answer, {childList: true, subtree: true});
  });
  field.value = value;
  const from = performance.now();
  field.dispatchEvent(new Event("input", {bubbles: true}));
  await changed;
  return performance.now() - from;
}"""
HEALTH = """async () => {
  const from = performance.now();
  await (await fetch("/healthz", {cache: "no-store"})).text();
  return performance.now() - from;
}"""
WAIT_MS = 40
"""The calculator waits so long for the next key before it asks."""


@pytest.mark.slow
def test_calculator_paints_a_change_within_a_few_health_checks(visit: Any, live_server: Any) -> None:
    catalog()
    page = visit(1280, "light")
    page.goto(f"{live_server.url}/calculator/?accelerator=h100-sxm5-80gb&model=llama-3-8b&count=8")
    health = sorted(page.evaluate(HEALTH) for _ in range(9))[4]
    lengths = [str(1024 * step) for step in range(1, 10)]
    painted = sorted(page.evaluate(PAINTED, ["sequence_length", length]) for length in lengths)[4]
    assert (painted - WAIT_MS) / health < MOST_HEALTH_CHECKS, f"{painted:.0f} ms, health {health:.1f} ms"


def test_number_opens_its_formula_by_keyboard_and_escape_returns(visit: Any, live_server: Any) -> None:
    catalog()
    page = visit(1280, "light")
    page.goto(f"{live_server.url}/calculator/?accelerator=h100-sxm5-80gb&model=llama-3-8b&count=8")
    page.focus("a.num >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_selector("#explained")
    page.wait_for_function("document.activeElement.id === 'explained'")
    assert "Parameters" in page.inner_text("#explained")
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.matches('a.num')")
    assert page.inner_text("#panel") == ""


def test_config_is_read_while_it_is_pasted(visit: Any, live_server: Any) -> None:
    catalog()
    page = visit(1280, "light")
    page.goto(f"{live_server.url}/plans/new/")
    page.check("[value=config]")
    page.fill("#config", json.dumps(ModelSpec.objects.get(slug="llama-3.1-8b").config))
    page.wait_for_selector("#reading table")
    assert "8,030,261,248" in page.inner_text("#reading")
    page.fill("#config", "{")
    page.wait_for_selector("#reading li")
    assert "cannot be read yet" in page.inner_text("#reading")


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
    assert page.locator("[hx-trigger^=every]").count() == 0
