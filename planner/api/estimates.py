"""`/estimates/`: what an exact configuration needs. Nothing is stored."""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from accounting import estimate
from planner.api.base import ApiView
from planner.api.schema import ESTIMATE_ANSWER, ESTIMATE_REQUEST
from planner.documents import write_document
from planner.requests import context_for, read_estimate


class EstimateView(ApiView):
    needs: ClassVar = {"POST": "read"}

    @extend_schema(operation_id="estimate", request=ESTIMATE_REQUEST, responses={200: ESTIMATE_ANSWER})
    def post(self, request: Request) -> HttpResponse:
        """Memory, time and cost of one configuration."""
        scenario = read_estimate(request.data, context_for(self.actor.team))
        return HttpResponse(write_document(estimate(scenario).row(0)), content_type="application/json")
