"""The whole journey in a real browser, once by mouse and once by keyboard alone.

Sign in, paste a config.json, plan, watch the progress, open an explanation, export, edit a price in the admin, plan
again, see the difference. Nothing is reported to the console, nothing asked of another host, no policy broken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User

from hardware.loader import catalog_load
from hardware.models import Offer
from planner.plans.models import PlanRun
from planner.plans.running import plan_execute
from planner.specs.loader import models_load
from planner.specs.models import ModelSpec
from planner.teams.models import Role
from planner.teams.services import membership_set, team_create
from tests.planner.web.test_browser import chromium, pytestmark

__all__ = ["chromium", "pytestmark"]
PASSWORD = "a-long-passphrase-of-ada"  # noqa: S105 - of this test's own person
MOST_TABS = 400


class Mouse:
    """Points at things and types into them."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def press(self, where: Any) -> None:
        where.click()

    def write(self, where: Any, words: str) -> None:
        where.click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(words)

    def choose(self, where: Any) -> None:
        where.check()

    def back(self) -> None:
        self.page.go_back()


class Keyboard(Mouse):
    """Reaches everything with Tab, acts with Enter and Space; the mouse is never touched."""

    def press(self, where: Any) -> None:
        self.reach(where)
        self.page.keyboard.press("Enter")

    def write(self, where: Any, words: str) -> None:
        self.reach(where)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(words)

    def choose(self, where: Any) -> None:
        if where.get_attribute("type") == "radio":
            # A group of radios is one stop: Tab to the ticked one, arrows to the others.
            name = where.get_attribute("name")
            self.reach(self.page.locator(f"[name={name}]:checked"))
            for _ in range(self.page.locator(f"[name={name}]").count()):
                if where.is_checked():
                    return
                self.page.keyboard.press("ArrowRight")
        else:
            self.reach(where)
            self.page.keyboard.press("Space")
        assert where.is_checked()

    def back(self) -> None:
        # A headless browser has no Alt+Left of its own; the history is the same.
        self.page.evaluate("history.back()")

    def reach(self, where: Any) -> None:
        """Tab until it has the focus, which must be seen."""
        where.wait_for()
        target = where.element_handle()
        for _ in range(MOST_TABS):
            if target.evaluate("it => it === document.activeElement"):
                outline = target.evaluate("it => getComputedStyle(it).outlineStyle + getComputedStyle(it).boxShadow")
                assert outline != "nonenone"
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab never reaches {where}")


@pytest.fixture
def ada(db: Any) -> User:
    catalog_load()
    models_load()
    user = User.objects.create_superuser("ada", password=PASSWORD)
    membership_set(team=team_create(slug="ours", name="Ours"), user=user, role=Role.ADMIN)
    return user


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def page(chromium: Any, live_server: Any, ada: User, reports: list[str]) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.on("console", lambda message: reports.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: reports.append(str(error)))
    opened.on(
        "request",
        lambda asked: None if asked.url.startswith((live_server.url, "data:")) else reports.append(asked.url),
    )
    opened.on("response", lambda given: reports.append(f"{given.status} {given.url}") if given.status >= 400 else None)
    yield opened
    context.close()


def waiting_plan() -> UUID:
    return PlanRun.objects.exclude(status__in=["succeeded", "infeasible", "failed"]).latest("created_at").pk


def watch(page: Any) -> PlanRun:
    """The page waits for a worker; the plan is made here; the page shows it by itself."""
    page.wait_for_selector("#progress")
    assert "Waiting for a worker" in page.inner_text("#progress")
    made = waiting_plan()
    assert plan_execute(plan_id=made)
    page.wait_for_selector(".stats", timeout=15_000)
    return PlanRun.objects.get(pk=made)


def dollars(run: PlanRun) -> float:
    return float(json.loads(run.answer)["recommendation"]["usd"])


def log_in(page: Any, hands: Mouse, address: str) -> None:
    page.goto(address)
    hands.write(page.locator("#id_username"), "ada")
    hands.write(page.locator("#id_password"), PASSWORD)
    hands.press(page.locator("main button"))
    page.wait_for_url(f"{address}/")
    hands.press(page.locator(".headline a.main"))


def ask(page: Any, hands: Mouse) -> None:
    """A plan for a pasted config.json on at most 16 devices."""
    hands.choose(page.locator("[value=config]"))
    hands.write(page.locator("#config"), json.dumps(ModelSpec.objects.get(slug="llama-3.1-8b").config))
    page.wait_for_selector("#reading table")
    assert "8,030,261,248" in page.inner_text("#reading")
    hands.write(page.locator("[data-narrow=accelerators-list]"), "H100 SXM5")
    hands.choose(page.locator("[name=accelerators][value=h100-sxm5-80gb]"))
    hands.write(page.locator("#max_count"), "16")
    hands.press(page.locator("form[method=post] .acts .btn.main"))


def look_and_export(page: Any, hands: Mouse) -> None:
    """One number's explanation, and one launch file."""
    hands.press(page.locator(".stats a.num").nth(2))
    page.wait_for_selector("#explained")
    assert "billing period \u00b7 USD per hour" in page.inner_text("#panel")
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.matches('.stats a.num')")

    hands.press(page.locator(".actions .btn.main"))
    page.wait_for_selector("#file")
    assert "num_processes" in page.inner_text("#file")
    hands.back()
    page.wait_for_selector(".stats")


def halve_its_price(page: Any, hands: Mouse, first: PlanRun) -> None:
    """The winning offer's price, edited in the admin."""
    offer = json.loads(first.answer)["recommendation"]["offer"]
    row = Offer.objects.filter(
        provider=offer["provider"], instance_name=offer["instance"], region=offer["region"],
        pricing_kind=offer["pricing"], accelerator="h100-sxm5-80gb",
    ).latest("price_not_after", "price_date")  # fmt: skip
    hands.press(page.locator("header nav a", has_text="Hardware"))
    hands.press(page.locator("main a", has_text="H100 SXM5 80").first)
    hands.press(page.locator(f"a[href$='/admin/hardware/offer/{row.pk}/change/']"))
    hands.write(page.locator("#id_usd_per_hour"), f"{float(row.usd_per_hour) / 2:.2f}")
    hands.press(page.locator("[name=_save]").first)
    page.wait_for_selector(".messagelist")
    assert "1 saved plan used the old value" in page.inner_text(".messagelist")


def compare(page: Any, hands: Mouse, runs: tuple[PlanRun, PlanRun]) -> None:
    hands.press(page.locator("header nav a", has_text="Plans"))
    hands.press(page.locator(".headline a", has_text="Compare"))
    for run in runs:
        hands.choose(page.locator(f"[value='{run.pk}.1']"))
    hands.press(page.locator("main form .btn.main"))
    page.wait_for_selector("main table")
    assert "\u2212$" in page.inner_text("tr:has(th:text('Cost, whole job'))")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Mouse, Keyboard])
def test_journey(page: Any, live_server: Any, reports: list[str], kind: type[Mouse]) -> None:
    hands = kind(page)
    log_in(page, hands, live_server.url)
    ask(page, hands)
    first = watch(page)
    assert f"${dollars(first):,.0f}" in page.inner_text(".stats")
    look_and_export(page, hands)
    halve_its_price(page, hands, first)
    page.goto(f"{live_server.url}/")
    assert "made from older prices" in page.inner_text("main")
    hands.press(page.locator("[data-option]").first)
    hands.press(page.locator("main a", has_text="Plan again").first)
    hands.press(page.locator("form[method=post] .acts .btn.main"))
    second = watch(page)
    assert dollars(second) < dollars(first)
    compare(page, hands, (first, second))
    assert reports == []
