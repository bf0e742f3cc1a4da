"""`/tokens/`: the keys of scripts and schedulers."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from planner.api.answers import ref
from planner.api.base import ApiView
from planner.api.moments import moment
from planner.api.pages import check_query, paged
from planner.api.schema import PAGE_PARAMETERS, body_of
from planner.teams.models import ApiToken
from planner.teams.selectors import READ
from planner.teams.tokens import token_issue, token_revoke, token_rotate, token_seen, tokens_seen


def token_document(token: ApiToken) -> dict[str, Any]:
    return {
        "id": str(token.public_id),
        "name": token.name,
        "owner": token.user.get_username(),
        "scope": token.scope,
        "created_at": moment(token.created),
        "expires_at": moment(token.expiry),
        "last_used_at": moment(token.last_used_at),
    }


def _with_text(token: ApiToken, text: str, status: int) -> Response:
    response = Response({**token_document(token), "token": text}, status=status)
    response["Cache-Control"] = "no-store"
    return response


class TokenListView(ApiView):
    needs: ClassVar = {"GET": READ, "POST": READ}

    @extend_schema(operation_id="token_list", parameters=PAGE_PARAMETERS, responses={200: ref("TokenList")})
    def get(self, request: Request) -> Response:
        """Your tokens in this team; an admin sees everybody's. Texts are never shown again."""
        check_query(request, [])
        return paged(self, request, tokens_seen(self.actor), ("-created", "public_id"), token_document)

    @extend_schema(operation_id="token_create", request=body_of("TokenRequest"), responses={201: ref("TokenMade")})
    def post(self, request: Request) -> Response:
        """Make a token; its text stands in this answer and in no other."""
        return _with_text(*token_issue(actor=self.actor, payload=request.data), 201)


class TokenView(ApiView):
    needs: ClassVar = {"GET": READ, "DELETE": READ}

    @extend_schema(operation_id="token", responses={200: ref("Token")})
    def get(self, request: Request, token_id: UUID) -> Response:
        """One token, without its text."""
        check_query(request, [])
        return Response(token_document(token_seen(self.actor, token_id)))

    @extend_schema(operation_id="token_revoke", responses={204: None})
    def delete(self, request: Request, token_id: UUID) -> Response:
        """Revoke a token; it is refused from now on."""
        token_revoke(actor=self.actor, public_id=token_id)
        return Response(status=204)


class TokenRotateView(ApiView):
    needs: ClassVar = {"POST": READ}

    @extend_schema(operation_id="token_rotate", request=None, responses={200: ref("TokenMade")})
    def post(self, request: Request, token_id: UUID) -> Response:
        """Another text for the same token; the old one is refused from now on."""
        return _with_text(*token_rotate(actor=self.actor, public_id=token_id), 200)
