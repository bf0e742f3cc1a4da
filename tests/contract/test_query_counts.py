"""How many queries each list costs, pinned: a query more for each row shows here before it shows in production.

`PIN_QUERY_COUNTS=1` writes the file anew; its difference is then reviewed like code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from planner.ops.audit import audit
from planner.plans.models import PlanRun
from planner.pools.models import Pool
from planner.teams.models import Team
from planner.teams.services import token_create
from planner.webhooks.models import Webhook, WebhookDelivery
from tests.people import PLAN, Caller

pytestmark = pytest.mark.django_db

PINNED = Path(__file__).with_name("query_counts.json")
LISTS = ("plans", "pools", "webhooks", "webhooks/hook1/deliveries", "tokens", "teams", "teams/ours", "audit", "models")
ROWS = 12


def fill(team: Team, user: User) -> None:
    for number in range(ROWS):
        run = PlanRun.objects.create(team=team, owner=user, request=json.dumps(PLAN), request_digest=str(number))
        Pool.objects.create(team=team, slug=f"pool{number}", accelerator="x", node_type="y", count=1)
        hook = Webhook.objects.create(team=team, slug=f"hook{number}", url="https://example.org/")
        WebhookDelivery.objects.create(webhook=Webhook.objects.get(slug="hook1") if number > 1 else hook, plan=run)
        token_create(team=team, user=user, name=f"token{number}")
        audit(team=team, user=user, action="test", subject=str(number))


def counts(caller: Caller) -> dict[str, int]:
    found = {}
    for name in LISTS:
        path = f"/api/v1/{name}/"
        caller.get(path)  # fills what is kept between requests
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert caller.get(path).status_code == 200, name
        found[name] = len(queries)
    return found


def test_lists_cost_what_they_cost(caller: Callable[..., Caller], team: Team) -> None:
    admin = caller("boss", role="admin")
    user = User.objects.get(username="boss")
    hook = Webhook.objects.create(team=team, slug="hook1", url="https://example.org/")
    few = counts(admin)
    hook.delete()
    fill(team, user)
    many = counts(admin)
    assert few == many, "the cost of a list must not grow with its rows"
    if os.environ.get("PIN_QUERY_COUNTS"):
        PINNED.write_text(json.dumps(many, indent=1) + "\n", encoding="utf-8")
    assert many == json.loads(PINNED.read_text(encoding="utf-8"))
