"""The models of the planner application, each written in its own subpackage."""

from planner.ops.models import AuditEvent, PeriodicJob
from planner.plans.models import PlanRun
from planner.pools.models import Pool
from planner.specs.models import ModelSpec
from planner.teams.models import ApiToken, Membership, Team
from planner.validation.models import CalibrationSet, ValidationRun
from planner.web.models import Preferences
from planner.webhooks.models import Webhook, WebhookDelivery

__all__ = [
    "ApiToken",
    "AuditEvent",
    "CalibrationSet",
    "Membership",
    "ModelSpec",
    "PeriodicJob",
    "PlanRun",
    "Pool",
    "Preferences",
    "Team",
    "ValidationRun",
    "Webhook",
    "WebhookDelivery",
]
