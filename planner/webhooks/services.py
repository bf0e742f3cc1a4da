"""Writes of webhooks: endpoints by a team's admin, messages with the end of a plan, tries with growing pauses."""

from __future__ import annotations

import json
import time
import uuid
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F, Min, Q
from django.db.models.functions import Now

from planner.documents import write_document
from planner.errors import Conflict, Fault, InvalidRequest, NotFound
from planner.ops.audit import audit, differences
from planner.ops.versions import IfMatch
from planner.plans.documents import plan_summary
from planner.plans.models import FINAL, PlanRun
from planner.queue import WEBHOOK_DELIVER, enqueue_on_commit, send
from planner.requests.fields import INVALID, Faults, Flag, Member, Record, Slug, Text
from planner.webhooks.addresses import RefusedAddress, check_url
from planner.webhooks.models import MAX_URL, DeliveryStatus, Webhook, WebhookDelivery
from planner.webhooks.sending import post
from planner.webhooks.signing import secret_of, signature

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from planner.teams.models import Team

log = structlog.get_logger(__name__)

FIELDS = {"url": Member(Text(MAX_URL), required=True), "active": Member(Flag(), default=True)}
WEBHOOK = Record({"slug": Member(Slug(), required=True), **FIELDS})
CHANGE = Record({name: Member(member.kind) for name, member in FIELDS.items()})
MAX_WEBHOOKS = 100
MAX_ATTEMPTS = 8
FIRST_PAUSE = timedelta(seconds=30)
GROWTH = 4
LONGEST_PAUSE = timedelta(hours=6)
SEND_LEASE = timedelta(seconds=60)
"""Above the longest try: a sender that died is followed by another after it."""
SWEEP_LIMIT = 200
SUCCESS = range(200, 300)


def _values(table: Record, payload: object) -> dict[str, Any]:
    faults = Faults()
    given = table.read(payload, "", faults)
    if given is INVALID:
        raise InvalidRequest(faults.found)
    if "url" in given:
        try:
            check_url(given["url"])
        except RefusedAddress as error:
            faults.add("/url", "refused_address", str(error))
    if faults.found:
        raise InvalidRequest(faults.found)
    return dict(given)


def _shown(webhook: Webhook) -> dict[str, Any]:
    return {"url": webhook.url, "active": webhook.active}


@transaction.atomic
def webhook_create(*, team: Team, user: User | None, payload: object) -> Webhook:
    """A new endpoint; `secret_of` tells its secret. Raises InvalidRequest or Conflict."""
    values = _values(WEBHOOK, payload)
    if Webhook.objects.filter(team=team).count() >= MAX_WEBHOOKS:
        raise Conflict(f"a team keeps at most {MAX_WEBHOOKS} webhooks; delete one first")
    webhook = Webhook(team=team, **values)
    try:
        with transaction.atomic():
            webhook.save()
    except IntegrityError:
        raise Conflict(f"the team has a webhook {webhook.slug!r} already; change that one, or take another") from None
    audit(
        team=team, user=user, action="webhook.created", subject=webhook.slug, changes=differences({}, _shown(webhook))
    )
    return webhook


@transaction.atomic
def webhook_update(*, team: Team, user: User | None, slug: str, payload: object, match: IfMatch) -> Webhook:
    """Change address or activity. Raises NotFound, PreconditionRequired or -Failed, InvalidRequest."""
    webhook = _locked(team, slug)
    match.check(webhook)
    before = _shown(webhook)
    for name, value in _values(CHANGE, payload).items():
        setattr(webhook, name, value)
    if changes := differences(before, _shown(webhook)):
        webhook.version += 1
        webhook.save()
        audit(team=team, user=user, action="webhook.changed", subject=webhook.slug, changes=changes)
    return webhook


@transaction.atomic
def webhook_renew_secret(*, team: Team, user: User | None, slug: str) -> Webhook:
    """Another secret from now on; messages not yet sent are signed with it."""
    webhook = _locked(team, slug)
    webhook.secret_salt = uuid.uuid4()
    webhook.version += 1
    webhook.save()
    audit(team=team, user=user, action="webhook.secret_renewed", subject=webhook.slug)
    return webhook


@transaction.atomic
def webhook_delete(*, team: Team, user: User | None, slug: str, match: IfMatch) -> None:
    webhook = _locked(team, slug)
    match.check(webhook)
    webhook.delete()
    audit(team=team, user=user, action="webhook.deleted", subject=webhook.slug)


def _locked(team: Team, slug: str) -> Webhook:
    webhook = Webhook.objects.select_for_update().filter(team=team, slug=slug.lower()).first()
    if webhook is None:
        raise NotFound("there is no such webhook")
    return webhook


def webhook_tell(*, plan_id: UUID) -> bool:
    """Write down the message about a plan that has ended, once; True where this call wrote it."""
    with transaction.atomic():
        due = PlanRun.objects.filter(pk=plan_id, webhook_due=True, status__in=FINAL)
        run = due.only("webhook").first()
        if run is None or not due.update(webhook_due=False) or run.webhook_id is None:
            return False
        delivery = WebhookDelivery.objects.create(webhook_id=run.webhook_id, plan_id=run.pk)
        enqueue_on_commit(WEBHOOK_DELIVER, delivery.pk)
    return True


def delivery_send(*, delivery_id: UUID) -> bool:
    """One try, taken by whoever updates the row first; True where the endpoint took the message."""
    waiting = WebhookDelivery.objects.filter(pk=delivery_id, status=DeliveryStatus.PENDING)
    if (until := _away_until(delivery_id)) is not None:
        waiting.filter(next_attempt_at__lte=Now()).update(next_attempt_at=until)
        return False
    if not waiting.filter(next_attempt_at__lte=Now()).update(
        attempts=F("attempts") + 1, next_attempt_at=Now() + SEND_LEASE
    ):
        return False
    delivery = WebhookDelivery.objects.select_related("webhook", "plan").get(pk=delivery_id)
    if not delivery.webhook.active:
        return _end(delivery, DeliveryStatus.FAILED, None, "the webhook is switched off")
    status, error = _try(delivery)
    if status in SUCCESS:
        return _end(delivery, DeliveryStatus.DELIVERED, status)
    if delivery.attempts >= MAX_ATTEMPTS:
        return _end(delivery, DeliveryStatus.FAILED, status, error)
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * GROWTH ** (delivery.attempts - 1))
    waiting.filter(attempts=delivery.attempts).update(
        next_attempt_at=Now() + pause, last_status=status, last_error=error
    )
    return False


def _away_until(delivery_id: UUID) -> datetime | None:
    """When an endpoint that gave no answer to another message is asked again; None where nothing is known against it.

    A try without an answer holds a worker for seconds: an endpoint that is away has one at a time, not one a message.
    """
    unanswered = WebhookDelivery.objects.filter(
        webhook__deliveries=delivery_id, status=DeliveryStatus.PENDING, last_status=None, next_attempt_at__gt=Now()
    ).exclude(Q(pk=delivery_id) | Q(last_error=""))
    found: datetime | None = unanswered.aggregate(first=Min("next_attempt_at"))["first"]
    return found


def _try(delivery: WebhookDelivery) -> tuple[int | None, str]:
    now = int(time.time())
    message = {"type": "plan.finished", "timestamp": now, "data": plan_summary(delivery.plan)}
    body = write_document(message).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "shardplan-webhook/1",
        "Webhook-Id": str(delivery.pk),
        "Webhook-Timestamp": str(now),
        "Webhook-Signature": signature(secret_of(delivery.webhook), str(delivery.pk), now, body),
    }
    try:
        status = post(delivery.webhook.url, body, headers)
    except RefusedAddress as error:
        return None, str(error)[:200]
    except (OSError, HTTPException) as error:
        return None, f"no answer: {type(error).__name__}"
    return status, "" if status in SUCCESS else f"answered {status}"


def _end(delivery: WebhookDelivery, status: DeliveryStatus, answered: int | None, error: str = "") -> bool:
    """Fenced by the number of the try: a sender that was taken for dead changes nothing any more."""
    ended = WebhookDelivery.objects.filter(
        pk=delivery.pk, attempts=delivery.attempts, status=DeliveryStatus.PENDING
    ).update(status=status, finished_at=Now(), last_status=answered, last_error=error)
    log.info("webhook_ended", delivery=str(delivery.pk), status=status.value, attempts=delivery.attempts)
    return bool(ended) and status == DeliveryStatus.DELIVERED


def webhooks_sweep() -> int:
    """Messages of plans that ended without one, and tries that are due; the number sent. Safe to run twice at once."""
    due = PlanRun.objects.filter(webhook_due=True, status__in=FINAL).order_by("finished_at")
    for plan_id in list(due.values_list("pk", flat=True)[:SWEEP_LIMIT]):
        webhook_tell(plan_id=plan_id)
    waiting = WebhookDelivery.objects.filter(status=DeliveryStatus.PENDING, next_attempt_at__lte=Now())
    sent = 0
    for delivery_id in list(waiting.order_by("next_attempt_at").values_list("pk", flat=True)[:SWEEP_LIMIT]):
        if not send(WEBHOOK_DELIVER, delivery_id):
            break
        sent += 1
    return sent


def webhook_named(team: Team, payload: object) -> tuple[Webhook | None, list[Fault]]:
    """The endpoint that a plan's `webhook` names, and what is wrong with the name; its form is the plan's to judge."""
    slug = payload.get("webhook") if isinstance(payload, dict) else None
    if not isinstance(slug, str) or not slug.strip():
        return None, []
    found = Webhook.objects.filter(team=team, slug=slug.strip().lower(), active=True).first()
    if found is not None:
        return found, []
    shown = json.dumps(slug[:60])
    detail = f"the team has no active webhook {shown}; an admin of the team registers it under /api/v1/webhooks/"
    return None, [Fault("/webhook", "unknown_name", detail)]
