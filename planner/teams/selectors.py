"""For whom a request acts, and what that lets it do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.teams.models import ApiToken, Membership, Role, Scope, Team

if TYPE_CHECKING:
    from django.contrib.auth.models import User

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


def actor_of_token(token: ApiToken) -> Actor | None:
    """None where the person is no longer a member: leaving a team cuts its tokens at the next request."""
    membership = Membership.objects.select_related("team").filter(team=token.team_id, user=token.user_id).first()
    if membership is None:
        return None
    allowed = ROLE_ALLOWS[membership.role] & SCOPE_ALLOWS[token.scope]
    return Actor(token.user, membership.team, allowed, f"token:{token.digest[:32]}")


def actor_of_session(user: User, team_slug: str | None = None) -> Actor | None:
    """The person in the team they named, else in their first by slug; None where they are in none (or not in that)."""
    memberships = Membership.objects.select_related("team").filter(user=user).order_by("team__slug")
    if team_slug is not None:
        memberships = memberships.filter(team__slug=team_slug)
    membership = memberships.first()
    if membership is None:
        return None
    return Actor(user, membership.team, ROLE_ALLOWS[membership.role], f"user:{user.pk}")
