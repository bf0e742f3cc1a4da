"""Any number opens its line: formula, this plan's values, sources, and the truth rows that guard it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from planner.plans.models import PlanRun
from planner.web.explain import subjects
from planner.web.explain_totals import TOTALS
from planner.web.guards import GUARDS
from tests.planner.web.test_pages import loaded, planned
from tests.planner.web.test_views import browser, page, text_of

__all__ = ["browser", "loaded", "planned"]
pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[3]


def test_every_total_of_a_real_plan_opens_with_its_values(browser: Callable[..., Client], planned: PlanRun) -> None:
    client = browser("ada")
    best = json.loads(planned.answer)["recommendation"]
    seen = {}
    for subject in TOTALS:
        answer = client.get(reverse("web:explain", args=[planned.pk, 1, subject]))
        assert answer.status_code == 200, subject
        seen[subject] = text_of(answer.content.decode())
        assert TOTALS[subject].formula in seen[subject].replace("&gt;", ">"), subject
    assert f"= {best['hours']:,.2f} h" in seen["hours"]
    assert f"= ${best['usd']:,.2f}" in seen["cost"]
    assert f"{best['device_bytes']:,}" in seen["device"]
    assert f"{best['answer']['memory']['checkpoint_bytes']['full']:,}" in seen["checkpoint-full"]
    assert str(best["offer"]["provider"]) in seen["cost"]
    assert f"{best['time']['mfu']:.4f}" in seen["mfu"]


def test_filled_formulas_give_the_number_they_explain(browser: Callable[..., Client], planned: PlanRun) -> None:
    best = json.loads(planned.answer)["recommendation"]
    seen = text_of(page(browser("ada"), reverse("web:explain", args=[planned.pk, 1, "hours"])))
    found = re.search(r"([\d,]+) \u00b7 ([\d.,]+) s / ([\d.]+) / 3600", seen)
    assert found is not None
    steps, seconds, goodput = (float(part.replace(",", "")) for part in found.groups())
    assert steps * seconds / goodput / 3600 == pytest.approx(best["hours"], rel=1e-3)


def test_numbers_of_the_plan_page_lead_to_their_explanations(browser: Callable[..., Client], planned: PlanRun) -> None:
    client = browser("ada")
    html = page(client, reverse("web:plan", args=[planned.pk]))
    opened = set(re.findall(r'class="num" href="[^"]*/explain/([a-z_-]+)/"', html))
    assert {"device", "hours", "cost", "throughput", "step", "mfu", "rate", "allocated"} <= opened
    for subject in opened:
        assert client.get(reverse("web:explain", args=[planned.pk, 1, subject])).status_code == 200, subject
    second = set(re.findall(r'href="([^"]*/options/2/explain/[a-z_-]+/)"', html))
    assert second
    for path in second:
        assert client.get(path).status_code == 200, path


def test_guards_are_rows_that_exist() -> None:
    assert set(GUARDS) <= set(subjects())
    for subject, guards in GUARDS.items():
        for guard in guards:
            path = ROOT / guard.where
            assert path.is_file(), (subject, guard.where)
            if path.suffix in (".csv", ".jsonl"):
                rows = len(path.read_text("utf-8").splitlines()) - (path.suffix == ".csv")
                assert rows >= guard.rows > 0.9 * rows, guard.where
