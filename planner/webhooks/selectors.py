"""Reads of webhooks: always through a team, so that another team's webhook is simply not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import QuerySet

from planner.errors import NotFound
from planner.webhooks.models import Webhook, WebhookDelivery

if TYPE_CHECKING:
    from planner.teams.models import Team


def webhook_rows(team: Team) -> QuerySet[Webhook]:
    return Webhook.objects.filter(team=team)


def webhook_of(team: Team, slug: str) -> Webhook:
    webhook = webhook_rows(team).filter(slug=slug.lower()).first()
    if webhook is None:
        raise NotFound("there is no such webhook")
    return webhook


def delivery_rows(webhook: Webhook) -> QuerySet[WebhookDelivery]:
    return WebhookDelivery.objects.filter(webhook=webhook)
