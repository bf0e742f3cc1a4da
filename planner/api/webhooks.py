"""`/webhooks/`: endpoints that are told when a plan ends. A plan names one by its slug and never carries a URL."""

from __future__ import annotations

from typing import Any, ClassVar

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from planner.api.answers import ref
from planner.api.base import ApiView
from planner.api.moments import moment
from planner.api.pages import check_query, paged
from planner.api.schema import IF_MATCH, PAGE_PARAMETERS, body_of
from planner.ops.versions import IfMatch, entity_tag
from planner.teams.selectors import ADMINISTER, READ
from planner.webhooks.models import Webhook, WebhookDelivery
from planner.webhooks.selectors import delivery_rows, webhook_of, webhook_rows
from planner.webhooks.services import webhook_create, webhook_delete, webhook_renew_secret, webhook_update
from planner.webhooks.signing import secret_of


def webhook_document(webhook: Webhook) -> dict[str, Any]:
    return {
        "slug": webhook.slug,
        "url": webhook.url,
        "active": webhook.active,
        "created_at": moment(webhook.created_at),
        "changed_at": moment(webhook.changed_at),
    }


def delivery_document(delivery: WebhookDelivery) -> dict[str, Any]:
    return {
        "id": str(delivery.pk),
        "plan": str(delivery.plan_id),
        "status": delivery.status,
        "attempts": delivery.attempts,
        "last_status": delivery.last_status,
        "last_error": delivery.last_error,
        "created_at": moment(delivery.created_at),
        "finished_at": moment(delivery.finished_at),
    }


def _answer(webhook: Webhook, status: int = 200, *, secret: bool = False) -> Response:
    shown = webhook_document(webhook) | ({"secret": secret_of(webhook)} if secret else {})
    response = Response(shown, status=status)
    response["ETag"] = entity_tag(webhook)
    if secret:
        response["Cache-Control"] = "no-store"
    return response


class WebhookListView(ApiView):
    needs: ClassVar = {"GET": READ, "POST": ADMINISTER}

    @extend_schema(operation_id="webhook_list", parameters=PAGE_PARAMETERS, responses={200: ref("WebhookList")})
    def get(self, request: Request) -> Response:
        """The team's endpoints, by slug."""
        check_query(request, [])
        return paged(self, request, webhook_rows(self.actor.team), ("slug",), webhook_document)

    @extend_schema(
        operation_id="webhook_create", request=body_of("WebhookRequest"), responses={201: ref("WebhookMade")}
    )
    def post(self, request: Request) -> Response:
        """Register an endpoint; its signing secret stands in this answer and in no other."""
        webhook = webhook_create(team=self.actor.team, user=self.actor.user, payload=request.data)
        response = _answer(webhook, 201, secret=True)
        response["Location"] = reverse("api:webhook", args=[webhook.slug])
        return response


class WebhookView(ApiView):
    needs: ClassVar = {"GET": READ, "PATCH": ADMINISTER, "DELETE": ADMINISTER}

    @extend_schema(operation_id="webhook", responses={200: ref("Webhook")})
    def get(self, request: Request, slug: str) -> Response:
        """One endpoint."""
        check_query(request, [])
        return _answer(webhook_of(self.actor.team, slug))

    @extend_schema(
        operation_id="webhook_update",
        parameters=[IF_MATCH],
        request=body_of("WebhookChange"),
        responses={200: ref("Webhook")},
    )
    def patch(self, request: Request, slug: str) -> Response:
        """Change its address, or switch it off."""
        match = IfMatch(request.headers.get("If-Match"))
        changed = webhook_update(
            team=self.actor.team, user=self.actor.user, slug=slug, payload=request.data, match=match
        )
        return _answer(changed)

    @extend_schema(operation_id="webhook_delete", parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Forget the endpoint and what was not yet delivered to it."""
        match = IfMatch(request.headers.get("If-Match"))
        webhook_delete(team=self.actor.team, user=self.actor.user, slug=slug, match=match)
        return Response(status=204)


class WebhookSecretView(ApiView):
    needs: ClassVar = {"POST": ADMINISTER}

    @extend_schema(operation_id="webhook_renew_secret", request=None, responses={200: ref("WebhookMade")})
    def post(self, request: Request, slug: str) -> Response:
        """Another signing secret; the old one signs nothing any more."""
        webhook = webhook_renew_secret(team=self.actor.team, user=self.actor.user, slug=slug)
        return _answer(webhook, secret=True)


class WebhookDeliveryListView(ApiView):
    needs: ClassVar = {"GET": READ}

    @extend_schema(
        operation_id="webhook_deliveries", parameters=PAGE_PARAMETERS, responses={200: ref("WebhookDeliveryList")}
    )
    def get(self, request: Request, slug: str) -> Response:
        """What was sent there, newest first."""
        check_query(request, [])
        rows = delivery_rows(webhook_of(self.actor.team, slug))
        return paged(self, request, rows, ("-created_at", "-id"), delivery_document)
