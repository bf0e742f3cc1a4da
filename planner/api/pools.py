"""`/pools/`: devices the team already has. Changes carry If-Match, so that nobody writes over another's change."""

from __future__ import annotations

from typing import Any, ClassVar

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from planner.api.answers import ref
from planner.api.base import ApiView
from planner.api.moments import moment
from planner.api.pages import check_query, paged
from planner.api.schema import IF_MATCH, PAGE_PARAMETERS, body_of
from planner.ops.versions import IfMatch, entity_tag
from planner.pools.models import Pool
from planner.pools.selectors import pool_of, pool_rows
from planner.pools.services import pool_create, pool_delete, pool_update
from planner.teams.selectors import EDIT_CATALOG, READ


def pool_document(pool: Pool) -> dict[str, Any]:
    return {
        "slug": pool.slug,
        "name": pool.name,
        "accelerator": pool.accelerator,
        "node_type": pool.node_type,
        "count": pool.count,
        "usd_per_device_hour": pool.usd_per_device_hour,
        "created_at": moment(pool.created_at),
        "changed_at": moment(pool.changed_at),
    }


def _answer(pool: Pool, status: int = 200) -> Response:
    response = Response(pool_document(pool), status=status)
    response["ETag"] = entity_tag(pool)
    return response


class PoolListView(ApiView):
    needs: ClassVar = {"GET": READ, "POST": EDIT_CATALOG}

    @extend_schema(operation_id="pool_list", parameters=PAGE_PARAMETERS, responses={200: ref("PoolList")})
    def get(self, request: Request) -> Response:
        """The team's pools, by slug."""
        check_query(request, [])
        return paged(self, request, pool_rows(self.actor.team), ("slug",), pool_document)

    @extend_schema(operation_id="pool_create", request=body_of("PoolRequest"), responses={201: ref("Pool")})
    def post(self, request: Request) -> Response:
        """Register devices the team has, at its internal price."""
        pool = pool_create(team=self.actor.team, user=self.actor.user, payload=request.data)
        response = _answer(pool, 201)
        response["Location"] = reverse("api:pool", args=[pool.slug])
        return response


class PoolView(ApiView):
    needs: ClassVar = {"GET": READ, "PATCH": EDIT_CATALOG, "DELETE": EDIT_CATALOG}

    @extend_schema(operation_id="pool", responses={200: ref("Pool")})
    def get(self, request: Request, slug: str) -> Response:
        """One pool, with the ETag that a change must send back."""
        check_query(request, [])
        return _answer(pool_of(self.actor.team, slug))

    @extend_schema(
        operation_id="pool_update", parameters=[IF_MATCH], request=body_of("PoolChange"), responses={200: ref("Pool")}
    )
    def patch(self, request: Request, slug: str) -> Response:
        """Change the members that are sent."""
        match = IfMatch(request.headers.get("If-Match"))
        changed = pool_update(team=self.actor.team, user=self.actor.user, slug=slug, payload=request.data, match=match)
        return _answer(changed)

    @extend_schema(operation_id="pool_delete", parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Take the pool out of use; plans made of it keep their answers."""
        match = IfMatch(request.headers.get("If-Match"))
        pool_delete(team=self.actor.team, user=self.actor.user, slug=slug, match=match)
        return Response(status=204)
