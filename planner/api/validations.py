"""`/validations/`: measure a configuration for real, look at the result, cancel it; errors of all of them."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from planner.api.answers import ANY, FLAG, INTEGER, MOMENT, NUMBER, TEXT, array, maybe, page_of, record
from planner.api.base import ApiView
from planner.api.headers import wait_seconds
from planner.api.pages import Pages, check_query
from planner.api.schema import IDEMPOTENCY_KEY, PAGE_PARAMETERS, PREFER
from planner.errors import InvalidQuery
from planner.validation.cases import REQUEST
from planner.validation.documents import validation_summary, validation_text
from planner.validation.kinds import KINDS
from planner.validation.models import ValidationRun, ValidationStatus
from planner.validation.selectors import calibrations, statistics_of, validation_of, validation_wait, validations_of
from planner.validation.services import validation_cancel, validation_create

JSON = "application/json"
HEAD: dict[str, Any] = {
    "id": {"type": "string", "format": "uuid"},
    "status": {"type": "string", "enum": ValidationStatus.values},
    "progress": {"type": "number", "minimum": 0, "maximum": 1},
}
SUMMARY = record(
    **HEAD,
    kind={"type": "string", "enum": list(KINDS)},
    model=maybe(TEXT),
    engine=maybe(TEXT),
    accelerator=maybe(TEXT),
    framework=maybe(TEXT),
    agrees=maybe(FLAG),
    predicted_bytes=maybe(INTEGER),
    measured_bytes=maybe(INTEGER),
    predicted_seconds=maybe(NUMBER),
    measured_seconds=maybe(NUMBER),
    url=TEXT,
)
VALIDATION: dict[str, Any] = {
    "description": "The first three members always; predicted, measured and comparison once it has succeeded.",
    "type": "object",
    "properties": {
        **HEAD,
        "kind": TEXT,
        "request": ANY,
        "measured_request": ANY,
        "notes": array(TEXT),
        "predicted": ANY,
        "measured": ANY,
        "comparison": record(agrees=maybe(FLAG), lines=array(ANY), outliers=array(ANY), notes=array(TEXT)),
        "environment": ANY,
        "engine_version": TEXT,
        "error": record(code=TEXT, detail=TEXT),
    },
    "required": list(HEAD),
}
STATISTICS = record(
    results=array(
        record(
            kind=TEXT,
            sharding_engine=TEXT,
            accelerator=TEXT,
            framework=TEXT,
            runs=INTEGER,
            agree=INTEGER,
            mean_absolute=NUMBER,
            median=NUMBER,
            percentile_5=NUMBER,
            percentile_95=NUMBER,
            largest=NUMBER,
        )
    )
)


CALIBRATIONS = record(
    results=array(
        record(
            version=INTEGER,
            in_force=FLAG,
            measurements=INTEGER,
            newest=maybe(MOMENT),
            engine_version=TEXT,
            created_at=MOMENT,
            rows=array(
                record(
                    range=TEXT,
                    factor=NUMBER,
                    band=array(NUMBER),
                    fitted_on=INTEGER,
                    held_out=INTEGER,
                    error_before=NUMBER,
                    error_after=NUMBER,
                    inside_band=NUMBER,
                    kept=FLAG,
                )
            ),
        )
    )
)


def validation_response(run: ValidationRun, status: int = 200) -> HttpResponse:
    return HttpResponse(validation_text(run), status=status, content_type=JSON)


class ValidationListView(ApiView):
    needs: ClassVar = {"GET": "read", "POST": "plan"}

    @extend_schema(
        operation_id="validation_create",
        request={JSON: REQUEST.schema()},
        parameters=[IDEMPOTENCY_KEY, PREFER],
        responses={202: VALIDATION, 200: VALIDATION},
    )
    def post(self, request: Request) -> HttpResponse:
        """Queue a measurement (202), or with `Prefer: wait=SECONDS` answer it when it is done in time (200).

        Without `kind` the cheapest kind that confirms most of the configuration is taken.
        """
        seconds = wait_seconds(request.headers.get("Prefer"))
        run, _ = validation_create(
            team=self.actor.team,
            user=self.actor.user,
            payload=request.data,
            idempotency_key=request.headers.get("Idempotency-Key"),
        )
        run = validation_wait(run, seconds or 0)
        response = validation_response(run, 200 if run.is_final else 202)
        response["Location"] = reverse("api:validation", args=[run.pk])
        if seconds is not None:
            response["Preference-Applied"] = f"wait={seconds}"
        return response

    @extend_schema(
        operation_id="validation_list",
        parameters=[
            *PAGE_PARAMETERS,
            OpenApiParameter("status", OpenApiTypes.STR, enum=ValidationStatus.values),
            OpenApiParameter("kind", OpenApiTypes.STR, enum=list(KINDS)),
        ],
        responses={200: page_of(SUMMARY)},
    )
    def get(self, request: Request) -> Response:
        """The team's validations, newest first."""
        check_query(request, ["status", "kind"])
        runs = validations_of(self.actor.team).defer("answer", "request")
        for name, known in (("status", ValidationStatus.values), ("kind", list(KINDS))):
            if (wanted := request.query_params.get(name)) is not None:
                if wanted not in known:
                    raise InvalidQuery(f"{name} takes one of {', '.join(known)}")
                runs = runs.filter(**{name: wanted})
        pages = Pages()
        pages.ordering = ("-created_at", "-id")
        found = pages.paginate_queryset(runs, request, view=self) or []
        return pages.get_paginated_response([validation_summary(run) for run in found])


class ValidationView(ApiView):
    needs: ClassVar = {"GET": "read", "DELETE": "plan"}

    @extend_schema(operation_id="validation", responses={200: VALIDATION})
    def get(self, request: Request, validation_id: UUID) -> HttpResponse:
        """One validation: its progress, and predicted beside measured once it has them."""
        check_query(request, [])
        return validation_response(validation_of(self.actor.team, validation_id))

    @extend_schema(operation_id="validation_cancel", responses={200: VALIDATION})
    def delete(self, request: Request, validation_id: UUID) -> HttpResponse:
        """Cancel a validation that has not ended; a measurement under way is killed."""
        actor = self.actor
        return validation_response(validation_cancel(validation_id=validation_id, team=actor.team, user=actor.user))


class StatisticsView(ApiView):
    needs: ClassVar = {"GET": "read"}

    @extend_schema(operation_id="validation_statistics", responses={200: STATISTICS})
    def get(self, request: Request) -> Response:
        """How far predictions lay from measurements, by kind, engine, accelerator and framework version."""
        check_query(request, [])
        return Response({"results": statistics_of(validations_of(self.actor.team))})


class CalibrationsView(ApiView):
    needs: ClassVar = {"GET": "read"}

    @extend_schema(operation_id="validation_calibrations", responses={200: CALIBRATIONS})
    def get(self, request: Request) -> Response:
        """Ranges and factors learnt from stored measurements, newest version first; at most one is in force."""
        check_query(request, [])
        return Response({"results": calibrations()})
