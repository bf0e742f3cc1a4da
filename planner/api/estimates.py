"""`/estimates/`: what an exact configuration needs, and how far it can be stretched. Nothing is stored."""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from accounting.estimate import estimate
from planner.api.base import ApiView
from planner.api.schema import ESTIMATE_ANSWER, ESTIMATE_REQUEST, MAXIMUM_ANSWER, MAXIMUM_REQUEST
from planner.documents import write_document
from planner.requests import context_for, read_estimate, read_maximum
from planner.search.maximum import maximum_answer


class EstimateView(ApiView):
    needs: ClassVar = {"POST": "read"}

    @extend_schema(operation_id="estimate", request=ESTIMATE_REQUEST, responses={200: ESTIMATE_ANSWER})
    def post(self, request: Request) -> HttpResponse:
        """Memory, time and cost of one configuration."""
        scenario = read_estimate(request.data, context_for(self.actor.team))
        return _answer(estimate(scenario).row(0))


class EstimateMaxView(ApiView):
    needs: ClassVar = {"POST": "read"}

    @extend_schema(operation_id="estimate_max", request=MAXIMUM_REQUEST, responses={200: MAXIMUM_ANSWER})
    def post(self, request: Request) -> HttpResponse:
        """The largest micro-batch or sequence that fits, with its estimate."""
        return _answer(maximum_answer(*read_maximum(request.data, context_for(self.actor.team))))


def _answer(document: object) -> HttpResponse:
    return HttpResponse(write_document(document), content_type="application/json")
