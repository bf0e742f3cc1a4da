"""`/plans/`: ask for a plan, look at it, cancel it."""

from __future__ import annotations

import hashlib
from typing import ClassVar
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from planner.api.answers import ref
from planner.api.base import ApiView
from planner.api.headers import tag_seen, wait_seconds
from planner.api.pages import check_query, paged
from planner.api.schema import IDEMPOTENCY_KEY, PAGE_PARAMETERS, PLAN_ANSWER, PLAN_LIST, PLAN_REQUEST, PREFER
from planner.errors import Fault, InvalidQuery, InvalidRequest
from planner.plans.comparison import MAX_COMPARED, Reference, comparison, reference, sides_of
from planner.plans.documents import plan_summary, plan_text
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.selectors import plan_of, plan_wait, plans_of
from planner.plans.services import plan_cancel, plan_create, plan_rerun

REFERENCE_LENGTH = 53
"""Of one id in the query, with braces, prefix or spaces, and a rank."""


def plan_response(run: PlanRun, status: int = 200) -> HttpResponse:
    return HttpResponse(plan_text(run), status=status, content_type="application/json")


def made_response(run: PlanRun, seconds: int | None) -> HttpResponse:
    """A plan just queued, waited for as long as the client prefers, with where it is."""
    run = plan_wait(run, seconds or 0)
    response = plan_response(run, 200 if run.is_final else 202)
    response["Location"] = reverse("api:plan", args=[run.pk])
    if seconds is not None:
        response["Preference-Applied"] = f"wait={seconds}"
    return response


class PlanListView(ApiView):
    needs: ClassVar = {"GET": "read", "POST": "plan"}

    @extend_schema(
        operation_id="plan_create",
        request=PLAN_REQUEST,
        parameters=[IDEMPOTENCY_KEY, PREFER],
        responses={202: PLAN_ANSWER, 200: PLAN_ANSWER},
    )
    def post(self, request: Request) -> HttpResponse:
        """Queue a plan (202), or with `Prefer: wait=SECONDS` answer it when it is done in time (200)."""
        seconds = wait_seconds(request.headers.get("Prefer"))
        run, _ = plan_create(
            team=self.actor.team,
            user=self.actor.user,
            payload=request.data,
            idempotency_key=request.headers.get("Idempotency-Key"),
        )
        return made_response(run, seconds)

    @extend_schema(
        operation_id="plan_list",
        parameters=[*PAGE_PARAMETERS, OpenApiParameter("status", OpenApiTypes.STR, enum=PlanStatus.values)],
        responses={200: PLAN_LIST},
    )
    def get(self, request: Request) -> Response:
        """The team's plans, newest first."""
        check_query(request, ["status"])
        plans = plans_of(self.actor.team).defer("answer")
        if (status := request.query_params.get("status")) is not None:
            if status not in PlanStatus.values:
                raise InvalidQuery(f"status takes one of {', '.join(PlanStatus.values)}")
            plans = plans.filter(status=status)
        return paged(self, request, plans, ("-created_at", "-id"), plan_summary)


class PlanCompareView(ApiView):
    needs: ClassVar = {"GET": "read"}

    @extend_schema(
        operation_id="plan_compare",
        parameters=[
            OpenApiParameter(
                "ids",
                OpenApiTypes.STR,
                required=True,
                description="2 to 10 ids, comma between; `ID.2` is a plan's second option, `ID` its best",
            )
        ],
        responses={200: ref("PlanComparison")},
    )
    def get(self, request: Request) -> Response:
        """Plans or options side by side: what was asked differently, what came out, and the differences."""
        check_query(request, ["ids"])
        asked = _references(request.query_params.get("ids", ""))
        return Response(comparison(sides_of(self.actor.team, asked)))


def _references(text: str) -> list[Reference]:
    parts = text.split(",") if len(text) <= MAX_COMPARED * REFERENCE_LENGTH else []
    try:
        found = [reference(part) for part in parts]
    except ValueError:
        raise InvalidQuery("ids takes the ids of plans with commas between them, each with .RANK or without") from None
    if not 1 < len(set(found)) == len(found) <= MAX_COMPARED:
        raise InvalidQuery(f"ids takes 2 to {MAX_COMPARED} different plans or options with commas between them")
    return found


class PlanRerunView(ApiView):
    needs: ClassVar = {"POST": "plan"}

    @extend_schema(
        operation_id="plan_rerun",
        request=None,
        parameters=[IDEMPOTENCY_KEY, PREFER],
        responses={202: PLAN_ANSWER, 200: PLAN_ANSWER},
    )
    def post(self, request: Request, plan_id: UUID) -> HttpResponse:
        """Plan a saved request anew at today's prices, as a plan of its own; `/plans/compare/` says the difference."""
        check_query(request, [])
        if request.data:
            detail = "the saved request is planned as it is; to change it, send it changed to /api/v1/plans/"
            raise InvalidRequest([Fault("", "not_read", detail)])
        seconds = wait_seconds(request.headers.get("Prefer"))
        run = plan_rerun(
            team=self.actor.team,
            user=self.actor.user,
            plan_id=plan_id,
            idempotency_key=request.headers.get("Idempotency-Key"),
        )
        return made_response(run, seconds)


class PlanView(ApiView):
    needs: ClassVar = {"GET": "read", "DELETE": "plan"}

    @extend_schema(operation_id="plan", responses={200: PLAN_ANSWER})
    def get(self, request: Request, plan_id: UUID) -> HttpResponse:
        """One plan: its progress, and its answer once it has one."""
        check_query(request, [])
        response = plan_response(plan_of(self.actor.team, plan_id))
        tag = f'"{hashlib.sha256(response.content).hexdigest()[:32]}"'
        if tag_seen(request.headers.get("If-None-Match"), tag):
            response = HttpResponse(status=304)
        response["ETag"] = tag
        return response

    @extend_schema(operation_id="plan_cancel", responses={200: PLAN_ANSWER})
    def delete(self, request: Request, plan_id: UUID) -> HttpResponse:
        """Cancel a plan that has not ended."""
        return plan_response(plan_cancel(plan_id=plan_id, team=self.actor.team, user=self.actor.user))
