"""Tokens: hashed, cut with the membership, and never more than the person may."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from planner.teams.models import ApiToken, Role, Scope, Team
from planner.teams.selectors import actor_of_session, actor_of_token
from planner.teams.services import membership_remove, membership_set, team_create, team_embedded, token_create
from tests.people import Caller, quiet_client

pytestmark = pytest.mark.django_db

PLANS = "/api/v1/plans/"


def test_only_the_digest_is_kept(team: Team, person: Callable[..., User]) -> None:
    token, text = token_create(team=team, user=person("ann"), name="ci")
    assert text.startswith("plan_")
    kept = ApiToken.objects.values().get(pk=token.pk)
    assert text not in map(str, kept.values())
    assert len(text) > 40
    assert text[20:] not in str(kept)


def test_a_token_opens_the_api_until_the_person_leaves(owner: Caller, team: Team) -> None:
    assert owner.get(PLANS).status_code == 200
    assert ApiToken.objects.get().last_used_at is not None
    membership_remove(team=team, user=User.objects.get(username="owner"))
    assert owner.get(PLANS).status_code == 401


def test_an_expired_an_unknown_and_an_odd_token_get_401(team: Team, person: Callable[..., User]) -> None:
    _, text = token_create(team=team, user=person("ann"), name="old", valid_for=timedelta(seconds=-1))
    for token in (text, "plan_" + "0" * 64, "\u00ff", "a b", "x" * 7000):
        answer = Caller(quiet_client(), token).get(PLANS)
        assert answer.status_code == 401, token
        assert answer["WWW-Authenticate"] == "Bearer"
        assert answer["Content-Type"] == "application/problem+json"


def test_a_token_is_for_its_own_team_only(team: Team, other_team: Team, person: Callable[..., User]) -> None:
    ann = person("ann")
    membership_set(team=other_team, user=ann, role=Role.ADMIN)
    token, _ = token_create(team=team, user=ann, name="ci", scope=Scope.ADMIN)
    actor = actor_of_token(token)
    assert actor is not None
    assert (actor.team, "administer" in actor.allowed) == (team, False)


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [
        (Role.VIEWER, Scope.ADMIN, 403),
        (Role.PLANNER, Scope.READ, 403),
        (Role.PLANNER, Scope.PLAN, 202),
        (Role.CATALOG_EDITOR, Scope.PLAN, 202),
        (Role.ADMIN, Scope.ADMIN, 202),
    ],
)
@pytest.mark.usefixtures("quick_search", "rings")
def test_planning_needs_role_and_scope(caller: Callable[..., Caller], role: str, scope: str, status: int) -> None:
    answer = caller("ann", role=role, scope=scope).post(PLANS, {"model": "m"})
    assert answer.status_code == status


@pytest.mark.usefixtures("quick_search", "rings")
def test_a_session_reads_freely_and_writes_with_csrf_only(person: Callable[..., User]) -> None:
    client = quiet_client()
    client.handler.enforce_csrf_checks = True
    client.force_login(person("ann"))
    assert client.get(PLANS).status_code == 200
    refused = client.post(PLANS, {"model": "m"}, content_type="application/json")
    assert (refused.status_code, refused["Content-Type"]) == (403, "application/problem+json")


def test_a_person_without_a_team_is_told_so() -> None:
    client = quiet_client()
    client.force_login(User.objects.create_user("lonely"))
    answer = client.get(PLANS)
    assert answer.status_code == 403
    assert "team" in answer.json()["detail"]
    assert actor_of_session(User.objects.get(username="lonely")) is None


def test_slugs_that_could_bite_are_refused() -> None:
    for slug in ("", "Ours", "../x", "a b", "a\n", "-x", "x" * 129):
        with pytest.raises(ValidationError):
            team_create(slug=slug, name="x")


def test_the_embedded_team_is_made_once() -> None:
    assert team_embedded() == team_embedded()
