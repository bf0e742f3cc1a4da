"""The home page starts a plan, says what the teams' plans cost and how near predictions have been."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from hardware.revision import catalog_changed
from planner.plans.models import PlanRun
from planner.requests import context_for, read_plan
from planner.teams.models import Role, Team
from planner.teams.services import membership_set
from planner.web.charts.ranges import Measured, ranges
from planner.web.form import payload_from
from planner.web.form_rows import PLAN_ROWS
from planner.web.presets import PRESETS
from planner.web.views import NEEDS_MORE
from tests.planner.web.test_pages import loaded, planned
from tests.planner.web.test_views import browser, page, text_of

__all__ = ["browser", "loaded", "planned"]
pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.slug)
def test_preset_fills_the_form_with_a_request_without_faults(
    browser: Callable[..., Client], loaded: None, team: Team, preset: object
) -> None:
    slug = preset.slug  # type: ignore[attr-defined]
    answer = browser("ada").get(f"{reverse('web:plan-new')}?preset={slug}")
    form = answer.context["form"]
    sent = answer.wsgi_request.GET.copy()
    sent.clear()
    for name, field in form.fields.items():
        chosen = [choice.value for choice in field.choices if choice.chosen]
        sent.setlist(name, chosen if field.choices and not field.value else [field.value])
    payload, unread = payload_from(sent, PLAN_ROWS)
    assert unread == []
    read_plan(payload, context_for(team))
    for name, value in preset.start.items():  # type: ignore[attr-defined]
        assert form.fields[name].value == value or set(value) == {
            choice.value for choice in form.fields[name].choices if choice.chosen
        }


def test_home_hands_model_and_tokens_to_the_form(browser: Callable[..., Client], loaded: None) -> None:
    form = browser("ada").get(f"{reverse('web:plan-new')}?model=qwen3-8b&tokens=3B").context["form"]
    assert form.fields["model"].value == "qwen3-8b"
    assert form.fields["tokens"].value == "3B"
    assert form.fields["sequence_length"].value == "8192"


def test_spending_names_every_team_of_the_person_and_no_other(
    browser: Callable[..., Client], planned: PlanRun, other_team: Team
) -> None:
    client = browser("ada")
    assert other_team.name not in page(client, reverse("web:plans"))
    membership_set(team=other_team, user=User.objects.get(username="ada"), role=Role.VIEWER)
    rows = dict(client.get(reverse("web:plans")).context["spending"])
    assert set(rows) == {planned.team.name, other_team.name}
    assert rows[planned.team.name].plans == "1"
    assert rows[other_team.name].plans == "0"


def test_plans_on_older_prices_are_marked_in_the_list(browser: Callable[..., Client], planned: PlanRun) -> None:
    client = browser("ada")
    assert "older prices" not in page(client, reverse("web:plans"))
    catalog_changed("a price")
    seen = text_of(page(client, reverse("web:plans")))
    assert f"made from older prices: catalog revision {planned.catalog_revision}" in seen


def test_ranges_share_one_scale() -> None:
    chart = ranges([Measured("a", 0.9, 1.2, 5), Measured("b", 0.5, 2.0, 3), Measured("none", 0, 1, 0)])
    assert chart is not None
    assert [row.name for row in chart.rows] == ["a", "b"]
    a, b = chart.rows
    assert 0 <= b.low < a.low < chart.zero < a.high < b.high <= 100
    assert (a.high - a.low) / (b.high - b.low) == pytest.approx(30 / 150)
    assert a.label == "\u221210\u00a0% to +20\u00a0%"
    assert ranges([]) is None


def test_measure_kinds_that_need_more_are_not_offered() -> None:
    assert set(NEEDS_MORE) == {"import", "convergence"}
