"""`/teams/`: who belongs to the team and as what; the log of what they changed and ran."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from planner.api.answers import ref
from planner.api.base import ApiView
from planner.api.moments import moment
from planner.api.pages import check_query, paged
from planner.api.resources import MEMBER_CHANGE, TEAM_CHANGE
from planner.api.schema import IF_MATCH, PAGE_PARAMETERS, TEAM_MATCH, body_of
from planner.errors import InvalidRequest, NotFound
from planner.ops.models import AuditEvent
from planner.ops.versions import IfMatch, entity_tag
from planner.requests.fields import INVALID, Faults, Record
from planner.teams.models import Membership, Team
from planner.teams.selectors import ADMINISTER, READ, Actor
from planner.teams.services import member_delete, member_put, team_rename


def _read(table: Record, payload: object) -> dict[str, Any]:
    faults = Faults()
    given = table.read(payload, "", faults)
    if given is INVALID or faults.found:
        raise InvalidRequest(faults.found)
    return dict(given)


def _own(actor: Actor, slug: str) -> Team:
    if slug.lower() != actor.team.slug:
        raise NotFound("there is no such team")
    return actor.team


def _team_answer(team: Team) -> Response:
    rows = Membership.objects.filter(team=team).select_related("user").order_by("user__username")
    members = [{"person": row.user.get_username(), "role": row.role} for row in rows]
    shown = {"slug": team.slug, "name": team.name, "created_at": moment(team.created_at), "members": members}
    response = Response(shown)
    response["ETag"] = entity_tag(team)
    return response


class TeamListView(ApiView):
    needs: ClassVar = {"GET": READ}

    @extend_schema(operation_id="team_list", parameters=PAGE_PARAMETERS, responses={200: ref("TeamList")})
    def get(self, request: Request) -> Response:
        """Your teams; a token has one, that it was made for."""
        check_query(request, [])
        mine = Membership.objects.filter(user=self.actor.user).select_related("team")
        if self.actor.token is not None:
            mine = mine.filter(team=self.actor.team)
        return paged(self, request, mine, ("team__slug",), _listed)


def _listed(row: Membership) -> dict[str, Any]:
    return {"slug": row.team.slug, "name": row.team.name, "role": row.role}


class TeamView(ApiView):
    needs: ClassVar = {"GET": READ, "PATCH": ADMINISTER}

    @extend_schema(operation_id="team", responses={200: ref("Team")})
    def get(self, request: Request, slug: str) -> Response:
        """The team and its members."""
        check_query(request, [])
        return _team_answer(_own(self.actor, slug))

    @extend_schema(
        operation_id="team_update", parameters=[IF_MATCH], request=body_of("TeamChange"), responses={200: ref("Team")}
    )
    def patch(self, request: Request, slug: str) -> Response:
        """Rename the team."""
        team = _own(self.actor, slug)
        name = _read(TEAM_CHANGE, request.data)["name"]
        match = IfMatch(request.headers.get("If-Match"))
        return _team_answer(team_rename(team=team, user=self.actor.user, name=name, match=match))


class MemberView(ApiView):
    needs: ClassVar = {"PUT": ADMINISTER, "DELETE": ADMINISTER}

    @extend_schema(
        operation_id="member_put",
        parameters=[TEAM_MATCH],
        request=body_of("MemberRequest"),
        responses={200: ref("Member")},
    )
    def put(self, request: Request, slug: str, person: str) -> Response:
        """Add a person who has an account, or change their role."""
        team = _own(self.actor, slug)
        role = _read(MEMBER_CHANGE, request.data)["role"]
        match = IfMatch(request.headers.get("If-Match"))
        membership = member_put(team=team, user=self.actor.user, username=person, role=role, match=match)
        return Response({"person": person, "role": membership.role})

    @extend_schema(operation_id="member_delete", parameters=[TEAM_MATCH], responses={204: None})
    def delete(self, request: Request, slug: str, person: str) -> Response:
        """Take a person out; their tokens for the team end with it."""
        match = IfMatch(request.headers.get("If-Match"))
        member_delete(team=_own(self.actor, slug), user=self.actor.user, username=person, match=match)
        return Response(status=204)


class AuditView(ApiView):
    needs: ClassVar = {"GET": ADMINISTER}

    @extend_schema(
        operation_id="audit_list",
        parameters=[*PAGE_PARAMETERS, OpenApiParameter("action", OpenApiTypes.STR)],
        responses={200: ref("AuditEventList")},
    )
    def get(self, request: Request) -> Response:
        """Who changed or ran what in the team, newest first."""
        check_query(request, ["action"])
        rows: QuerySet[AuditEvent] = AuditEvent.objects.filter(team=self.actor.team)
        if (action := request.query_params.get("action")) is not None:
            rows = rows.filter(action=action.replace("\0", ""))
        return paged(self, request, rows, ("-created_at", "-id"), _event)


def _event(event: AuditEvent) -> dict[str, Any]:
    return {
        "person": event.person or None,
        "action": event.action,
        "subject": event.subject,
        "changes": json.loads(event.changes),
        "request_id": event.request_id or None,
        "created_at": moment(event.created_at),
    }
