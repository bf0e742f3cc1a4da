"""Who asks, and for which team: a bearer token, or the session of a person who signed in (with CSRF)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from knox.auth import TokenAuthentication
from knox.crypto import hash_token
from rest_framework import exceptions
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from planner.errors import Forbidden
from planner.ops.guesses import refuse_token_guessing
from planner.teams.models import ApiToken
from planner.teams.selectors import Actor, actor_of_session, actor_of_token, token_with_role

LAST_USED_STEP = timedelta(minutes=1)


class BearerAuthentication(TokenAuthentication):  # type: ignore[misc]  # knox has no types
    """`Authorization: Bearer plan_…`. The digest is the primary key: one query, and nothing to compare in Python."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        try:
            return super().authenticate(request)  # type: ignore[no-any-return]
        except exceptions.AuthenticationFailed:
            refuse_token_guessing(request._request)
            raise

    def authenticate_credentials(self, token: bytes) -> tuple[Any, ApiToken]:
        try:
            digest = hash_token(token.decode("ascii"))
        except UnicodeDecodeError:
            raise exceptions.AuthenticationFailed("this is no token of ours") from None
        found = token_with_role(digest)
        if found is None:
            raise exceptions.AuthenticationFailed("this token is not known, or was revoked")
        if found.expiry is not None and found.expiry <= timezone.now():
            raise exceptions.AuthenticationFailed("this token has expired")
        _mark_used(found)
        return self.validate_user(found)  # type: ignore[no-any-return]


def _mark_used(token: ApiToken) -> None:
    """At most one write a minute: a token used a thousand times a second must not be a thousand writes."""
    stale = timezone.now() - LAST_USED_STEP
    if token.last_used_at is None or token.last_used_at < stale:
        unused = Q(last_used_at=None) | Q(last_used_at__lt=stale)
        ApiToken.objects.filter(unused, pk=token.pk).update(last_used_at=Now())


class TeamPermission(BasePermission):
    """Lets a request through when its actor's role and token allow what the view's method needs."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user or not request.user.is_authenticated:
            return False
        actor = _actor(request)
        if actor is None:
            raise Forbidden("you belong to no team; ask an admin of one to add you")
        needed = view.needs.get(request.method or "", "read")
        if needed not in actor.allowed:
            raise Forbidden(f"this needs the right to {needed.replace('_', ' ')}; your role or token does not give it")
        view.actor = actor
        return True


def _actor(request: Request) -> Actor | None:
    if isinstance(request.auth, ApiToken):
        return actor_of_token(request.auth)
    assert isinstance(request.user, User), "the permission asks only for people who signed in"
    return actor_of_session(request.user, request.session.get("team"))
