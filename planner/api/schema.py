"""What the OpenAPI document needs beside the views: names of shared parts, and the problems every door can give."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from planner.api.answers import COMPONENTS, ref
from planner.api.listings import LISTINGS
from planner.api.problems import MEDIA_TYPE
from planner.api.resources import RESOURCE_COMPONENTS
from planner.requests import request_schemas

JSON = "application/json"
ESTIMATE_REQUEST = {JSON: ref("EstimateRequest")}
PLAN_REQUEST = {JSON: ref("PlanRequest")}
MAXIMUM_REQUEST = {JSON: ref("MaximumRequest")}
ESTIMATE_ANSWER = ref("Estimate")
MAXIMUM_ANSWER = ref("Maximum")
PLAN_ANSWER = ref("Plan")
PLAN_LIST = ref("PlanList")

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
    OpenApiParameter.HEADER,
    description="Per team. A retry with the same key and body gets the first plan; another body gets 422.",
)
PREFER = OpenApiParameter(
    "Prefer",
    # No pattern: preferences that a server does not know are to be passed over (RFC 7240), and are.
    {"type": "string"},
    OpenApiParameter.HEADER,
    description="`wait=SECONDS`, up to nine digits: answer when the plan is done, or after so long; "
    "`Preference-Applied` says how long. Other preferences are passed over.",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "minLength": 1},
    OpenApiParameter.HEADER,
    description="The ETag of the row as you read it; 428 without, 412 where somebody changed it since.",
)
TEAM_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "minLength": 1},
    OpenApiParameter.HEADER,
    description="The ETag of the team as you read it, if the change is to be refused (412) where somebody was quicker.",
)
PAGE_PARAMETERS = [
    OpenApiParameter("page_size", {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}),
    OpenApiParameter("cursor", OpenApiTypes.STR, description="From `next` or `previous` of an earlier page."),
]

ALWAYS = {"401": "No token, or one that is not valid", "429": "Too many requests: see Retry-After"}
SOMETIMES = {
    "400": "The body, a header or a query parameter cannot be read",
    "403": "Role or token do not allow this",
    "404": "Unknown, or another team's",
    "503": "Database away: see Retry-After",
}
WITH_BODY = {
    "413": "The body is too large",
    "415": "Not application/json",
    "422": "Every fault of the body, each at its own pointer",
}
CONFLICT = "It does not go with what is there: a name taken, a plan that has ended, a team's last admin"
CHANGES = {"412": "Somebody changed it since you read it", "428": "If-Match is missing"}
STORED = frozenset({"plan_rerun"})
"""Operations that judge a body which is stored here, and refuse one that is sent."""
METHODS = frozenset({"get", "post", "delete", "put", "patch"})


def body_of(name: str) -> dict[str, dict[str, str]]:
    """A JSON body of one component, as the views declare it."""
    return {JSON: ref(name)}


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "planner.api.auth.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "plan_…"}


def complete(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """drf-spectacular's last step: add the shared components and every operation's problems."""
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    schemas.update({**COMPONENTS, **request_schemas(), **RESOURCE_COMPONENTS})
    for listing in LISTINGS:
        schemas.update(listing.components())
    for operations in result["paths"].values():
        for method in METHODS & set(operations):
            operation = operations[method]
            problems = {**ALWAYS, **SOMETIMES, **(WITH_BODY if "requestBody" in operation else {})}
            if method != "get":
                problems["409"] = CONFLICT
            if operation["operationId"] in STORED:
                problems |= {status: WITH_BODY[status] for status in ("415", "422")}
            if any(parameter.get("name") == IF_MATCH.name for parameter in operation.get("parameters", [])):
                problems |= CHANGES
            for status, description in problems.items():
                answer = {"description": description, "content": {MEDIA_TYPE: {"schema": ref("Problem")}}}
                operation["responses"].setdefault(status, answer)
    return result
