"""The admin beside the catalog: pools and webhooks of every team, and offers edited under their device."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from hardware.loader import catalog_load
from hardware.models import Accelerator, Offer
from hardware.revision import current_revision
from planner.pools.models import Pool
from planner.teams.models import Team
from planner.webhooks.models import Webhook

pytestmark = pytest.mark.django_db


@pytest.fixture
def keeper(client: Client) -> Client:
    catalog_load()
    client.force_login(User.objects.create_superuser("keeper"))
    return client


def form_of(html: str) -> dict[str, str]:
    """What a browser would send back of an admin form, untouched."""
    found = {}
    for tag in re.findall(r"<input [^>]*>", html):
        name, value = re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]*)"', tag)
        kind = re.search(r'type="(\w+)"', tag)
        if name and kind and (kind[1] != "checkbox" or "checked" in tag) and kind[1] != "submit":
            found[name[1]] = value[1] if value else "on" if kind[1] == "checkbox" else ""
    for name, inside in re.findall(r'<select name="([^"]+)".*?>(.*?)</select>', html, re.S):
        chosen = re.search(r'<option value="([^"]*)" selected', inside)
        found[name] = chosen[1] if chosen else ""
    for name, inside in re.findall(r'<textarea name="([^"]+)".*?>(.*?)</textarea>', html, re.S):
        found[name] = inside.strip()
    return {name: unescape(value) for name, value in found.items()}


def test_pool_is_edited_with_a_check_and_a_new_version(keeper: Client, team: Team) -> None:
    pool = Pool.objects.create(
        team=team, slug="ours", accelerator="h100-sxm5-80gb", node_type="aws-p5-48xlarge", count=64
    )  # fmt: skip
    path = reverse("admin:planner_pool_change", args=[pool.pk])
    assert "ours" in keeper.get(reverse("admin:planner_pool_changelist")).content.decode()
    sent = {"team": team.pk, "slug": "ours", "name": "", "accelerator": "h100-sxm5-80gb",
            "node_type": "aws-p5-48xlarge", "count": "32", "usd_per_device_hour": "1.5"}  # fmt: skip
    refused = keeper.post(path, sent | {"accelerator": "no-such"})
    assert refused.status_code == 200
    assert "no-such" in refused.content.decode()
    assert keeper.post(path, sent).status_code == 302
    pool.refresh_from_db()
    assert (pool.count, pool.version) == (32, 2)
    assert "keeper" in keeper.get(reverse("admin:planner_pool_history", args=[pool.pk])).content.decode()


def test_webhook_is_only_switched_off(keeper: Client, team: Team) -> None:
    hook = Webhook.objects.create(team=team, slug="ci", url="https://ci.example.org/plans")
    assert keeper.get(reverse("admin:planner_webhook_add")).status_code == 403
    path = reverse("admin:planner_webhook_change", args=[hook.pk])
    sent = form_of(keeper.get(path).content.decode()) | {"url": "http://127.0.0.1/"}
    sent.pop("active", None)
    assert keeper.post(path, sent).status_code == 302
    hook.refresh_from_db()
    assert (hook.active, hook.url, hook.version) == (False, "https://ci.example.org/plans", 2)


def test_price_is_edited_under_its_device(keeper: Client) -> None:
    device = Accelerator.objects.get(slug="b200-sxm")
    offer = Offer.objects.filter(accelerator=device).first()
    assert offer is not None
    path = reverse("admin:hardware_accelerator_change", args=[device.pk])
    sent = form_of(keeper.get(path).content.decode())
    place = next(name.split("-")[1] for name, value in sent.items() if re.fullmatch(r"offers-\d+-id", name)
                 and value == str(offer.pk))  # fmt: skip
    before = current_revision()
    answer = keeper.post(path, sent | {f"offers-{place}-usd_per_hour": "44.00"}, follow=True)
    assert re.findall(r'<ul class="errorlist[^>]*>.*?</ul>', answer.content.decode(), re.S) == []
    offer.refresh_from_db()
    assert float(offer.usd_per_hour) == 44.0
    assert offer.origin == "edited"
    assert current_revision() == before + 1
