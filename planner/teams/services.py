"""Writes about teams, members and tokens. A token's text exists once, in the answer of the call that made it."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction

from planner.teams.models import ApiToken, Membership, Role, Scope, Team

EMBEDDED_TEAM = "home"
"""The team of an instance that one person runs on one machine: command-line plans are stored for it."""


@transaction.atomic
def team_create(*, slug: str, name: str, admin: User | None = None) -> Team:
    """A new team, with its first admin where one is given."""
    team = Team(slug=slug, name=name)
    team.full_clean()
    team.save()
    if admin is not None:
        membership_set(team=team, user=admin, role=Role.ADMIN)
    return team


def team_embedded() -> Team:
    """The embedded instance's own team, made on first use."""
    team, _ = Team.objects.get_or_create(slug=EMBEDDED_TEAM, defaults={"name": "Home"})
    return team


def membership_set(*, team: Team, user: User, role: str) -> Membership:
    """Give a person a role in a team, or change it."""
    membership, _ = Membership.objects.update_or_create(team=team, user=user, defaults={"role": Role(role)})
    return membership


@transaction.atomic
def membership_remove(*, team: Team, user: User) -> None:
    """Take a person out of a team; their tokens for it stop working with the same commit."""
    ApiToken.objects.filter(team=team, user=user).delete()
    Membership.objects.filter(team=team, user=user).delete()


def token_create(
    *, team: Team, user: User, name: str, scope: str = Scope.PLAN, valid_for: timedelta | None = None
) -> tuple[ApiToken, str]:
    """A new token and its text; only the digest is kept. `valid_for` None never expires."""
    token: ApiToken
    token, text = ApiToken.objects.create(user=user, expiry=valid_for, team=team, name=name, scope=Scope(scope))
    return token, text
