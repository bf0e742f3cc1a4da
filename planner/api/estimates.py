"""`/estimates/`: what an exact configuration needs, and how far it can be stretched. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from planner.api.base import ApiView
from planner.api.schema import ESTIMATE_ANSWER, ESTIMATE_REQUEST, MAXIMUM_ANSWER, MAXIMUM_REQUEST
from planner.documents import write_document
from planner.errors import PlannerError
from planner.ops.metrics import count_estimate
from planner.requests import context_for, read_estimate, read_maximum
from planner.requests.together import TOGETHER
from planner.search.maximum import maximum_answer


class EstimateView(ApiView):
    needs: ClassVar = {"POST": "read"}

    @extend_schema(operation_id="estimate", request=ESTIMATE_REQUEST, responses={200: ESTIMATE_ANSWER})
    def post(self, request: Request) -> HttpResponse:
        """Memory, time and cost of one configuration."""
        with counted():
            answer = TOGETHER.answer(read_estimate(request.data, context_for(self.actor.team)))
        return _answer(answer)


class EstimateMaxView(ApiView):
    needs: ClassVar = {"POST": "read"}

    @extend_schema(operation_id="estimate_max", request=MAXIMUM_REQUEST, responses={200: MAXIMUM_ANSWER})
    def post(self, request: Request) -> HttpResponse:
        """The largest micro-batch or sequence that fits, with its estimate."""
        with counted():
            answer = maximum_answer(*read_maximum(request.data, context_for(self.actor.team)))
        return _answer(answer)


@contextmanager
def counted() -> Iterator[None]:
    """Counts an estimate by its outcome, a fault of ours included."""
    outcome = "internal_error"
    try:
        yield
        outcome = "ok"
    except PlannerError as error:
        outcome = error.code
        raise
    finally:
        count_estimate(outcome)


def _answer(document: object) -> HttpResponse:
    return HttpResponse(write_document(document), content_type="application/json")
