"""How often the sweep rings for a plan that waits, and that a dead runner's plan does not wait for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from planner.jobs import leases
from planner.plans.models import PlanRun, PlanStatus
from planner.teams.services import team_embedded

pytestmark = pytest.mark.django_db


def waiting(age: timedelta, **fields: Any) -> PlanRun:
    then = timezone.now() - age
    team = team_embedded()
    return PlanRun.objects.create(
        team=team, request="{}", request_digest="0" * 64, created_at=then, send_after=then, lease_until=then, **fields
    )


def rung(run: PlanRun) -> list[Any]:
    heard: list[Any] = []
    leases.sweep(PlanRun.objects.filter(pk=run.pk), lambda row: not heard.append(row.pk))
    return heard


@pytest.mark.parametrize(("waited", "least"), [(1, 59), (600, 1190)])
def test_what_has_waited_long_is_rung_for_ever_later(waited: int, least: int) -> None:
    run = waiting(timedelta(seconds=waited))
    assert rung(run) == [run.pk]
    assert rung(run) == []
    run.refresh_from_db()
    assert run.send_after >= timezone.now() + timedelta(seconds=least)


def test_a_dead_runners_plan_is_rung_for_as_soon_as_its_lease_is_over() -> None:
    run = waiting(timedelta(seconds=600))
    assert rung(run) == [run.pk]
    assert leases.claim(PlanRun.objects.all(), run.pk) is not None
    assert rung(run) == []
    PlanRun.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert PlanRun.objects.get(pk=run.pk).status == PlanStatus.RUNNING
    assert rung(run) == [run.pk]
