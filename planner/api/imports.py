"""`/models/import/`: a config.json becomes a model of the team. Every text in it stays text; nothing is fetched."""

from __future__ import annotations

import re
from typing import ClassVar

from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from planner.api.answers import ref
from planner.api.base import ApiView
from planner.api.listings import MODELS
from planner.api.pages import check_query
from planner.errors import Fault, InvalidRequest, NotFound
from planner.plans.documents import canonical_text, digest_of
from planner.specs.models import ModelSpec
from planner.specs.services import model_spec_import

DIGEST_DIGITS = 10


class ModelImportView(ApiView):
    needs: ClassVar = {"POST": "plan"}

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        """To who reads models by slug this is one that nobody has."""
        raise NotFound("there is no such row under models")

    @extend_schema(
        operation_id="model_import",
        parameters=[
            OpenApiParameter("name", OpenApiTypes.STR, description="Slug to store it under; else one is made.")
        ],
        request={"application/json": {"type": "object", "additionalProperties": True}},
        responses={201: ref("Model"), 200: ref("Model")},
    )
    def post(self, request: Request) -> Response:
        """Store a Hugging Face config.json as a model of the team (201); the very same again gives the first (200)."""
        check_query(request, ["name"])
        config = request.data
        if not isinstance(config, dict):
            raise InvalidRequest([Fault("", "wrong_type", "a config.json is an object")])
        name = request.query_params.get("name") or _made_name(config)
        known = ModelSpec.objects.filter(team=self.actor.team, slug=name.strip().lower(), config=config).first()
        spec = known or self._store(config, name)
        response = Response(MODELS.show(spec, whole=True), status=200 if known else 201)
        response["Location"] = reverse("api:models-row", args=[spec.slug])
        return response

    def _store(self, config: dict[str, object], name: str) -> ModelSpec:
        actor = self.actor
        try:
            return model_spec_import(
                config=config, name=name, team=actor.team, user=actor.user, source="config.json by the API"
            )
        except InvalidRequest as error:
            # The service speaks of its own arguments; here the whole body is the config and the name is in the query.
            faults = [_at_the_body(fault) for fault in error.faults]
            raise InvalidRequest(faults, error.http_status) from None


def _at_the_body(fault: Fault) -> Fault:
    pointer = fault.pointer.removeprefix("/config") if fault.pointer.startswith("/config") else ""
    return Fault(pointer, fault.code, fault.detail)


def _made_name(config: dict[str, object]) -> str:
    """The kind of model, where it looks like one, and the digest of its config: no stranger's text becomes a name."""
    kind = config.get("model_type")
    known = isinstance(kind, str) and re.fullmatch(r"[a-z][a-z0-9_]{0,39}", kind)
    return f"{kind if known else 'model'}-{digest_of(canonical_text(config))[:DIGEST_DIGITS]}"
