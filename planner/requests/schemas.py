"""OpenAPI components of the request bodies, generated from the tables that read them."""

from __future__ import annotations

from typing import Any

from planner.requests.estimate import MAXIMUM
from planner.requests.plan_tables import PLAN
from planner.requests.tables import ESTIMATE


def request_schemas() -> dict[str, dict[str, Any]]:
    """Component name → schema."""
    return {
        "EstimateRequest": ESTIMATE.schema(),
        "MaximumRequest": MAXIMUM.schema(),
        "PlanRequest": PLAN.schema(),
    }
