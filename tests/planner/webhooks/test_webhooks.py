"""Webhooks: registered by an admin, named by slug, signed, sent until taken, given up in the end."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from planner.plans.models import PlanRun
from planner.plans.running import plan_execute
from planner.plans.services import plan_cancel
from planner.teams.models import Role, Team
from planner.webhooks.models import DeliveryStatus, Webhook, WebhookDelivery
from planner.webhooks.services import MAX_ATTEMPTS, delivery_send, webhooks_sweep
from planner.webhooks.signing import secret_of
from tests.people import PLAN, Caller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_search", "rings")]

WEBHOOKS, PLANS = "/api/v1/webhooks/", "/api/v1/plans/"
HOOK = {"slug": "night", "url": "https://hooks.example.org/plans"}


class Receiver:
    """A real endpoint on this machine that keeps what it gets and answers as told."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status, self.location = 200, ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((dict(self.headers), body))
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def admin(caller: Callable[..., Caller]) -> Caller:
    return caller("boss", role=Role.ADMIN)


def ended(admin: Caller, **change: Any) -> WebhookDelivery:
    plan = admin.post(PLANS, {**PLAN, "webhook": "night", **change}).json()["id"]
    plan_execute(plan_id=UUID(plan))
    return WebhookDelivery.objects.get(plan_id=plan)


def make_due(delivery: WebhookDelivery) -> None:
    WebhookDelivery.objects.filter(pk=delivery.pk).update(next_attempt_at=timezone.now() - timedelta(seconds=1))


def test_a_secret_is_shown_when_it_is_made_and_kept_nowhere(admin: Caller) -> None:
    made = admin.post(WEBHOOKS, HOOK)
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    secret = made.json()["secret"]
    assert secret.startswith("whsec_")
    assert secret not in admin.get(f"{WEBHOOKS}night/").content.decode()
    assert secret[6:] not in str(Webhook.objects.values().get())
    renewed = admin.post(f"{WEBHOOKS}night/secret/", {}).json()["secret"]
    assert renewed != secret


@pytest.mark.parametrize(
    ("change", "pointer"),
    [({"url": "http://127.0.0.1/"}, "/url"), ({"url": "https://169.254.169.254/x"}, "/url"), ({"url": 7}, "/url"),
     ({"url": "x" * 600}, "/url"), ({"slug": "a b"}, "/slug"), ({"active": 1}, "/active"), ({"key": "x"}, "/key")],
)  # fmt: skip
def test_faults_have_pointers(admin: Caller, change: dict[str, Any], pointer: str) -> None:
    answer = admin.post(WEBHOOKS, {**HOOK, **change})
    assert answer.status_code == 422
    assert pointer in {fault["pointer"] for fault in answer.json()["errors"]}


def test_the_end_of_a_plan_arrives_signed(admin: Caller, receiver: Receiver) -> None:
    secret = admin.post(WEBHOOKS, {**HOOK, "url": receiver.url}).json()["secret"]
    delivery = ended(admin)
    assert delivery_send(delivery_id=delivery.pk)
    headers, body = receiver.got[0]
    told = json.loads(body)
    assert (told["type"], told["data"]["id"], told["data"]["status"]) == (
        "plan.finished", str(delivery.plan_id), "succeeded",
    )  # fmt: skip
    signed = f"{headers['Webhook-Id']}.{headers['Webhook-Timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["Webhook-Signature"] == f"v1,{wanted}"
    assert not delivery_send(delivery_id=delivery.pk)
    assert len(receiver.got) == 1
    row = admin.get(f"{WEBHOOKS}night/deliveries/").json()["results"][0]
    assert (row["status"], row["attempts"], row["last_status"]) == ("delivered", 1, 200)


def test_a_refusal_is_tried_again_with_growing_pauses_and_given_up(admin: Caller, receiver: Receiver) -> None:
    admin.post(WEBHOOKS, {**HOOK, "url": receiver.url})
    receiver.status = 500
    delivery, pauses = ended(admin), []
    for _ in range(MAX_ATTEMPTS):
        make_due(delivery)
        before = timezone.now()
        assert not delivery_send(delivery_id=delivery.pk)
        delivery.refresh_from_db()
        pauses.append(round((delivery.next_attempt_at - before).total_seconds(), -1))
    assert pauses[:-1] == sorted(pauses[:-1])
    assert 25 < pauses[0] < 60
    assert (delivery.status, delivery.attempts, delivery.last_status) == (DeliveryStatus.FAILED, MAX_ATTEMPTS, 500)
    make_due(delivery)
    assert not delivery_send(delivery_id=delivery.pk)
    assert len(receiver.got) == MAX_ATTEMPTS


def test_an_endpoint_that_is_away_holds_up_its_own_messages_only(admin: Caller, receiver: Receiver) -> None:
    """Every try without an answer takes a worker for seconds: of a hundred messages one finds out, the others wait."""
    admin.post(WEBHOOKS, {**HOOK, "url": "http://127.0.0.1:1/"})
    admin.post(WEBHOOKS, {"slug": "other", "url": receiver.url})
    first, second, third = (ended(admin) for _ in range(3))
    other = ended(admin, webhook="other")
    assert not any(delivery_send(delivery_id=delivery.pk) for delivery in (first, second, third))
    for delivery in (first, second, third):
        delivery.refresh_from_db()
    assert [first.attempts, second.attempts, third.attempts] == [1, 0, 0]
    assert second.next_attempt_at == third.next_attempt_at == first.next_attempt_at > timezone.now()
    assert delivery_send(delivery_id=other.pk), "another endpoint's messages do not wait"
    Webhook.objects.filter(slug="night").update(url=receiver.url)
    for delivery in (first, second, third):
        make_due(delivery)
    assert all(delivery_send(delivery_id=delivery.pk) for delivery in (first, second, third))


def test_a_redirect_is_not_followed(admin: Caller, receiver: Receiver) -> None:
    admin.post(WEBHOOKS, {**HOOK, "url": receiver.url})
    receiver.status, receiver.location = 302, receiver.url
    delivery = ended(admin)
    assert not delivery_send(delivery_id=delivery.pk)
    assert len(receiver.got) == 1
    delivery.refresh_from_db()
    assert (delivery.status, delivery.last_error) == (DeliveryStatus.PENDING, "answered 302")


def test_an_address_that_turns_private_is_not_called(admin: Caller, receiver: Receiver, settings: Any) -> None:
    admin.post(WEBHOOKS, {**HOOK, "url": receiver.url})
    delivery = ended(admin)
    settings.WEBHOOK_NETWORKS = []
    assert not delivery_send(delivery_id=delivery.pk)
    assert receiver.got == []
    delivery.refresh_from_db()
    assert "not on the public internet" in delivery.last_error


def test_the_sweep_tells_of_every_end_once(admin: Caller, team: Team, rings: list[Any]) -> None:
    admin.post(WEBHOOKS, HOOK)
    plan = admin.post(PLANS, {**PLAN, "webhook": "night"}).json()["id"]
    plan_cancel(plan_id=UUID(plan), team=team)
    poisoned = admin.post(PLANS, {**PLAN, "webhook": "night"}).json()["id"]
    PlanRun.objects.filter(pk=poisoned).update(status="failed", finished_at=timezone.now())
    webhooks_sweep()
    webhooks_sweep()
    told = WebhookDelivery.objects.values_list("plan_id", flat=True)
    assert sorted(told) == sorted([UUID(plan), UUID(poisoned)])
    assert not PlanRun.objects.filter(webhook_due=True).exists()


def test_a_plan_names_its_own_teams_active_webhook(
    admin: Caller, caller: Callable[..., Caller], other_team: Team
) -> None:
    admin.post(WEBHOOKS, HOOK)
    stranger = caller("stranger", of=other_team)
    for client, name in ((stranger, "night"), (admin, "nigth"), (admin, "")):
        answer = client.post(PLANS, {**PLAN, "webhook": name})
        if name:
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["pointer"] == "/webhook"
    tag = admin.get(f"{WEBHOOKS}night/")["ETag"]
    admin.call("PATCH", f"{WEBHOOKS}night/", {"active": False}, If_Match=tag)
    assert admin.post(PLANS, {**PLAN, "webhook": "night"}).status_code == 422


def test_deleting_one_leaves_the_plan(admin: Caller) -> None:
    tag = admin.post(WEBHOOKS, HOOK)["ETag"]
    delivery = ended(admin)
    assert admin.call("DELETE", f"{WEBHOOKS}night/", If_Match=tag).status_code == 204
    assert PlanRun.objects.get(pk=delivery.plan_id).webhook is None


def test_secrets_of_two_webhooks_differ(team: Team) -> None:
    rows = [Webhook.objects.create(team=team, slug=slug, url="https://example.org/") for slug in ("a", "b")]
    assert secret_of(rows[0]) != secret_of(rows[1])
