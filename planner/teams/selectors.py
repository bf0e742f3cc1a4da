"""For whom a request acts, and what that lets it do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from django.contrib.auth.models import User
from django.db import DEFAULT_DB_ALIAS

from planner.teams.models import ApiToken, Membership, Role, Scope, Team

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
    if hasattr(token, ROLE_READ):
        role = getattr(token, ROLE_READ)
    else:
        role = Membership.objects.filter(team=token.team_id, user=token.user_id).values_list("role", flat=True).first()
    if role is None:
        return None
    allowed = ROLE_ALLOWS[role] & SCOPE_ALLOWS[token.scope]
    return Actor(token.user, token.team, allowed, f"token:{token.digest[:32]}", token)


def token_with_role(digest: str) -> ApiToken | None:
    """A token with person, team and role, in one query; columns it leaves out are fetched when something asks for them.

    Every request of the API makes it, so it is written out: for the ORM to build and compile the same query takes ten
    times as long as for the database to answer it.
    """
    token: Any = next(iter(ApiToken.objects.raw(_TOKEN_QUERY, [digest])), None)
    if token is not None:
        # A raw column is not converted: SQLite has 0 and 1 for booleans.
        person = [token.user_id, token.person_username, bool(token.person_is_active)]
        token.user = User.from_db(DEFAULT_DB_ALIAS, ["id", "username", "is_active"], person)
        team = [token.team_id, token.team_slug, token.team_name, token.team_version]
        token.team = Team.from_db(DEFAULT_DB_ALIAS, ["id", "slug", "name", "version"], team)
    return cast("ApiToken | None", token)


_TOKEN_QUERY = f"""
    SELECT token.*, member.role AS {ROLE_READ}, person.username AS person_username,
        person.is_active AS person_is_active, team.slug AS team_slug, team.name AS team_name,
        team.version AS team_version
    FROM {ApiToken._meta.db_table} AS token
    JOIN {User._meta.db_table} AS person ON person.id = token.user_id
    JOIN {Team._meta.db_table} AS team ON team.id = token.team_id
    LEFT JOIN {Membership._meta.db_table} AS member
        ON member.team_id = token.team_id AND member.user_id = token.user_id
    WHERE token.digest = %s
"""


def actor_of_session(user: User, team_slug: str | None = None) -> Actor | None:
    """The person in the team they named, else in their first by slug; None where they are in none (or not in that)."""
    memberships = Membership.objects.select_related("team").filter(user=user).order_by("team__slug")
    if team_slug is not None:
        memberships = memberships.filter(team__slug=team_slug)
    membership = memberships.first()
    if membership is None:
        return None
    return Actor(user, membership.team, ROLE_ALLOWS[membership.role], f"user:{user.pk}")
