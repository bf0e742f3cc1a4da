"""For whom a request acts, and what that lets it do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from django.db.models import OuterRef, QuerySet, Subquery

from planner.teams.models import ApiToken, Membership, Role, Scope, Team

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROLE_READ = "role_read"
"""Attribute of a token that was read together with its person's role."""

READ, PLAN, EDIT_CATALOG, ADMINISTER = "read", "plan", "edit_catalog", "administer"

ROLE_ALLOWS: dict[str, frozenset[str]] = {
    Role.VIEWER: frozenset({READ}),
    Role.PLANNER: frozenset({READ, PLAN}),
    Role.CATALOG_EDITOR: frozenset({READ, PLAN, EDIT_CATALOG}),
    Role.ADMIN: frozenset({READ, PLAN, EDIT_CATALOG, ADMINISTER}),
}
SCOPE_ALLOWS: dict[str, frozenset[str]] = {
    Scope.READ: frozenset({READ}),
    Scope.PLAN: frozenset({READ, PLAN}),
    Scope.ADMIN: frozenset({READ, PLAN, EDIT_CATALOG, ADMINISTER}),
}


@dataclass(frozen=True, slots=True)
class Actor:
    """One person in one team, with what both their role and their token allow."""

    user: User
    team: Team
    allowed: frozenset[str]
    key: str
    """What rate limits count by: the token, or the person where a session is used."""
    token: ApiToken | None = None
    """None where a person signed in."""

    @property
    def may_manage_tokens(self) -> bool:
        """A token of less than full scope must not make others: they could outlive it."""
        return self.token is None or self.token.scope == Scope.ADMIN


def actor_of_token(token: ApiToken) -> Actor | None:
    """None where the person is no longer a member: leaving a team cuts its tokens at the next request."""
    role: str | None = getattr(token, ROLE_READ, None)
    if role is None:
        role = Membership.objects.filter(team=token.team_id, user=token.user_id).values_list("role", flat=True).first()
    if role is None:
        return None
    allowed = ROLE_ALLOWS[role] & SCOPE_ALLOWS[token.scope]
    return Actor(token.user, token.team, allowed, f"token:{token.digest[:32]}", token)


def tokens_with_role() -> QuerySet[ApiToken]:
    """Tokens with person, team and role in one query: every request of the API makes it."""
    role = Membership.objects.filter(team=OuterRef("team"), user=OuterRef("user")).values("role")[:1]
    found = ApiToken.objects.select_related("user", "team").annotate(**{ROLE_READ: Subquery(role)})
    return cast("QuerySet[ApiToken]", found)


def actor_of_session(user: User, team_slug: str | None = None) -> Actor | None:
    """The person in the team they named, else in their first by slug; None where they are in none (or not in that)."""
    memberships = Membership.objects.select_related("team").filter(user=user).order_by("team__slug")
    if team_slug is not None:
        memberships = memberships.filter(team__slug=team_slug)
    membership = memberships.first()
    if membership is None:
        return None
    return Actor(user, membership.team, ROLE_ALLOWS[membership.role], f"user:{user.pk}")
