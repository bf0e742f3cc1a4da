"""The one meaning of an input: JSON payloads to scenarios and plan problems, for every door alike."""

from planner.requests.context import RequestContext
from planner.requests.echo import estimate_request
from planner.requests.estimate import read_estimate, read_maximum
from planner.requests.plan import read_plan
from planner.requests.schemas import request_schemas
from planner.requests.visible import context_for

__all__ = [
    "RequestContext",
    "context_for",
    "estimate_request",
    "read_estimate",
    "read_maximum",
    "read_plan",
    "request_schemas",
]
