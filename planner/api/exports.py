"""`/plans/{id}/options/{rank}/exports/{format}/`: a launch file of one option."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from planner.api.base import ApiView
from planner.api.pages import check_query
from planner.plans.exports import plan_export
from planner.plans.selectors import plan_of


class ExportView(ApiView):
    needs: ClassVar = {"GET": "read"}

    @extend_schema(
        operation_id="plan_export",
        responses={
            (200, "text/plain"): OpenApiTypes.STR,
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "application/yaml"): OpenApiTypes.STR,
            (200, "text/x-shellscript"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request, plan_id: UUID, rank: int, key: str) -> HttpResponse:
        """The file, whole: 404 where there is no such format, 409 where the format cannot say what was decided."""
        check_query(request, [])
        file = plan_export(run=plan_of(self.actor.team, plan_id), rank=rank, key=key)
        response = HttpResponse(file.text, content_type=f"{file.media_type}; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{file.name}"'
        return response
