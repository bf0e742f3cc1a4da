"""Writes about teams, members and tokens. A token's text exists once, in the answer of the call that made it."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from planner.errors import Conflict, NotFound
from planner.ops.audit import audit, differences
from planner.ops.versions import UNSEEN, IfMatch
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
    token, text = ApiToken.objects.create(  # type: ignore[misc]  # knox takes a duration and gives the text, too
        user=user, expiry=valid_for, team=team, name=name, scope=Scope(scope)
    )
    return token, text


@transaction.atomic
def team_rename(*, team: Team, user: User, name: str, match: IfMatch) -> Team:
    """Another name for people; the slug stays. Raises PreconditionRequired or -Failed."""
    locked = Team.objects.select_for_update().get(pk=team.pk)
    match.check(locked)
    before, locked.name = locked.name, name
    if changes := differences({"name": before}, {"name": name}):
        locked.version += 1
        locked.save(update_fields=["name", "version"])
        audit(team=team, user=user, action="team.changed", subject=team.slug, changes=changes)
    return locked


@transaction.atomic
def member_put(*, team: Team, user: User, username: str, role: str, match: IfMatch = UNSEEN) -> Membership:
    """Add a person who has an account, or change their role.

    Raises NotFound; Conflict for the last admin; PreconditionFailed where `match` names another state of the team.
    """
    match.check_if_sent(Team.objects.select_for_update().get(pk=team.pk))
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None:
        raise NotFound("there is no person of that name; the operator makes accounts")
    before = Membership.objects.filter(team=team, user=person).values_list("role", flat=True).first()
    if before == Role.ADMIN and role != Role.ADMIN:
        _keep_an_admin(team, person)
    membership = membership_set(team=team, user=person, role=role)
    if before != role:
        _members_changed(team)
        audit(team=team, user=user, action="member.set", subject=username, changes={"role": [before, role]})
    return membership


@transaction.atomic
def member_delete(*, team: Team, user: User, username: str, match: IfMatch = UNSEEN) -> None:
    """Take a person out. Raises as `member_put` does."""
    match.check_if_sent(Team.objects.select_for_update().get(pk=team.pk))
    membership = Membership.objects.select_related("user").filter(team=team, user__username=username).first()
    if membership is None:
        raise NotFound("there is no such member")
    if membership.role == Role.ADMIN:
        _keep_an_admin(team, membership.user)
    membership_remove(team=team, user=membership.user)
    _members_changed(team)
    audit(team=team, user=user, action="member.removed", subject=username, changes={"role": [membership.role, None]})


def _members_changed(team: Team) -> None:
    """Members are part of what a team's tag stands for."""
    Team.objects.filter(pk=team.pk).update(version=F("version") + 1)


def _keep_an_admin(team: Team, leaving: User) -> None:
    others = Membership.objects.filter(team=team, role=Role.ADMIN, user__is_active=True).exclude(user=leaving)
    if not others.exists():
        raise Conflict("a team keeps one admin at least; make another person admin first")
