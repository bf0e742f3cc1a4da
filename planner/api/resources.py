"""Schemas of the doors to what a team keeps: pools, webhooks, tokens, members, and the log of deeds."""

from __future__ import annotations

from planner.api.answers import (
    ANY,
    FLAG,
    INTEGER,
    MOMENT,
    NUMBER,
    TEXT,
    Schema,
    array,
    mapping,
    maybe,
    page_of,
    record,
    ref,
)
from planner.pools.services import CHANGE as POOL_CHANGE
from planner.pools.services import POOL
from planner.requests.fields import Member, Record, Text, Word
from planner.teams.models import Role, Scope
from planner.teams.tokens import TOKEN
from planner.webhooks.models import DeliveryStatus
from planner.webhooks.services import CHANGE as WEBHOOK_CHANGE
from planner.webhooks.services import WEBHOOK

TEAM_CHANGE = Record({"name": Member(Text(200), required=True)})
MEMBER_CHANGE = Record({"role": Member(Word(tuple(Role.values)), required=True)})

UUID_TEXT: Schema = {"type": "string", "format": "uuid"}
CHANGED = {"created_at": MOMENT, "changed_at": MOMENT}

POOL_ROW = {
    "slug": TEXT,
    "name": TEXT,
    "accelerator": TEXT,
    "node_type": TEXT,
    "count": INTEGER,
    "usd_per_device_hour": maybe(NUMBER),
    **CHANGED,
}
WEBHOOK_ROW = {"slug": TEXT, "url": TEXT, "active": FLAG, **CHANGED}
DELIVERY_ROW = {
    "id": UUID_TEXT,
    "plan": UUID_TEXT,
    "status": {"type": "string", "enum": DeliveryStatus.values},
    "attempts": INTEGER,
    "last_status": maybe(INTEGER),
    "last_error": TEXT,
    "created_at": MOMENT,
    "finished_at": maybe(MOMENT),
}
TOKEN_ROW = {
    "id": UUID_TEXT,
    "name": TEXT,
    "owner": TEXT,
    "scope": {"type": "string", "enum": Scope.values},
    "created_at": MOMENT,
    "expires_at": maybe(MOMENT),
    "last_used_at": maybe(MOMENT),
}
ROLE: Schema = {"type": "string", "enum": Role.values}
AUDIT_ROW = {
    "person": maybe(TEXT),
    "action": TEXT,
    "subject": TEXT,
    "changes": ANY,
    "request_id": maybe(TEXT),
    "created_at": MOMENT,
}

RESOURCE_COMPONENTS: dict[str, Schema] = {
    "PoolRequest": POOL.schema(),
    "PoolChange": POOL_CHANGE.schema(),
    "Pool": record(**POOL_ROW),
    "PoolList": page_of(ref("Pool")),
    "WebhookRequest": WEBHOOK.schema(),
    "WebhookChange": WEBHOOK_CHANGE.schema(),
    "Webhook": record(**WEBHOOK_ROW),
    "WebhookMade": record(**WEBHOOK_ROW, secret=TEXT),
    "WebhookList": page_of(ref("Webhook")),
    "WebhookDelivery": record(**DELIVERY_ROW),
    "WebhookDeliveryList": page_of(ref("WebhookDelivery")),
    "TokenRequest": TOKEN.schema(),
    "Token": record(**TOKEN_ROW),
    "TokenMade": record(**TOKEN_ROW, token=TEXT),
    "TokenList": page_of(ref("Token")),
    "TeamChange": TEAM_CHANGE.schema(),
    "MemberRequest": MEMBER_CHANGE.schema(),
    "Member": record(person=TEXT, role=ROLE),
    "Team": record(slug=TEXT, name=TEXT, created_at=MOMENT, members=array(ref("Member"))),
    "TeamSummary": record(slug=TEXT, name=TEXT, role=ROLE),
    "TeamList": page_of(ref("TeamSummary")),
    "AuditEvent": record(**AUDIT_ROW),
    "AuditEventList": page_of(ref("AuditEvent")),
    "BulkEstimateRequest": {
        "type": "array",
        # Whatever stands here is answered in its own place, a wrong one with its problem.
        "items": {"anyOf": [ref("EstimateRequest"), {}]},
        "minItems": 1,
    },
    "BulkEstimate": record(
        results=array({"oneOf": [ref("Estimate"), record(error=ref("Problem"))]}),
    ),
    "PlanComparison": record(
        plans=array(ref("PlanSummary")),
        request={"type": "object", "additionalProperties": array({}), "description": "Pointer → values that differ"},
        recommendation={"type": "object", "additionalProperties": array({}), "description": "Field → values"},
        options=array(maybe(ANY)),
        made_with=mapping(array({})),
        differences={
            "type": "array",
            "description": "Each less the first, the dollars told apart by price and by hours; null for the first",
            "items": maybe(ANY),
        },
    ),
}
