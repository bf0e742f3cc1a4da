"""The one meaning of an input: JSON payloads to scenarios and plan problems, for every door alike."""

from planner.requests.context import RequestContext
from planner.requests.estimate import read_estimate, read_maximum

__all__ = ["RequestContext", "read_estimate", "read_maximum"]
