"""Teams and tokens through the API: shown once, never more than one may, and a line in the log for each deed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from planner.ops.models import AuditEvent
from planner.teams.models import ApiToken, Membership, Role, Scope, Team
from tests.people import Caller, quiet_client

pytestmark = pytest.mark.django_db

TOKENS, TEAM, PLANS = "/api/v1/tokens/", "/api/v1/teams/ours/", "/api/v1/plans/"


def test_a_token_is_shown_once_and_opens_the_api(owner: Caller) -> None:
    made = owner.post(TOKENS, {"name": "ci", "scope": "read", "days": 30})
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    text, public = made.json()["token"], made.json()["id"]
    assert Caller(quiet_client(), text).get(PLANS).status_code == 200
    for seen in (owner.get(TOKENS), owner.get(f"{TOKENS}{public}/")):
        assert text[10:] not in seen.content.decode()
    kept = ApiToken.objects.get(public_id=public)
    assert kept.expiry is not None
    assert (kept.expiry - kept.created).days in (29, 30)


def test_rotating_replaces_the_text_at_once(owner: Caller) -> None:
    made = owner.post(TOKENS, {"name": "ci"}).json()
    old = Caller(quiet_client(), made["token"])
    assert old.get(PLANS).status_code == 200
    rotated = owner.post(f"{TOKENS}{made['id']}/rotate/", {}).json()
    assert (rotated["id"], rotated["name"]) == (made["id"], "ci")
    assert old.get(PLANS).status_code == 401
    assert Caller(quiet_client(), rotated["token"]).get(PLANS).status_code == 200
    assert ApiToken.objects.filter(name="ci").count() == 1


def test_revoking_ends_it(owner: Caller) -> None:
    made = owner.post(TOKENS, {"name": "ci"}).json()
    assert owner.call("DELETE", f"{TOKENS}{made['id']}/").status_code == 204
    assert Caller(quiet_client(), made["token"]).get(PLANS).status_code == 401
    assert list(AuditEvent.objects.order_by("id").values_list("action", flat=True)) == [
        "token.created",
        "token.revoked",
    ]


@pytest.mark.parametrize("scope", [Scope.READ, Scope.PLAN])
def test_a_lesser_token_makes_no_tokens(caller: Callable[..., Caller], scope: str) -> None:
    lesser = caller("ann", role=Role.ADMIN, scope=scope)
    own = lesser.get(TOKENS).json()["results"][0]["id"]
    assert lesser.post(TOKENS, {"name": "more", "scope": "admin"}).status_code == 403
    assert lesser.post(f"{TOKENS}{own}/rotate/", {}).status_code == 403
    assert lesser.call("DELETE", f"{TOKENS}{own}/").status_code == 403


@pytest.mark.parametrize(
    ("body", "pointer"),
    [({}, "/name"), ({"name": ""}, "/name"), ({"name": "a", "scope": "root"}, "/scope"),
     ({"name": "a", "days": 0}, "/days"), ({"name": "a", "days": 100_000}, "/days"), ({"name": "a", "x": 1}, "/x"),
     ([], ""), ({"name": "x" * 101}, "/name")],
)  # fmt: skip
def test_faults_of_a_token(owner: Caller, body: Any, pointer: str) -> None:
    answer = owner.post(TOKENS, body)
    assert answer.status_code == 422
    assert pointer in {fault["pointer"] for fault in answer.json()["errors"]}


def test_a_name_is_used_once(owner: Caller) -> None:
    assert [owner.post(TOKENS, {"name": "ci"}).status_code for _ in range(2)] == [201, 409]


def test_people_see_their_own_tokens_and_admins_all(caller: Callable[..., Caller], owner: Caller) -> None:
    admin = caller("boss", role=Role.ADMIN)
    assert {row["owner"] for row in owner.get(TOKENS).json()["results"]} == {"owner"}
    assert {row["owner"] for row in admin.get(TOKENS).json()["results"]} == {"owner", "boss"}
    theirs = ApiToken.objects.get(user__username="owner").public_id
    assert admin.post(f"{TOKENS}{theirs}/rotate/", {}).status_code == 403
    assert admin.call("DELETE", f"{TOKENS}{theirs}/").status_code == 204
    assert owner.get(PLANS).status_code == 401


def test_an_admin_keeps_the_members(caller: Callable[..., Caller], team: Team) -> None:
    admin = caller("boss", role=Role.ADMIN)
    User.objects.create_user("new")
    assert admin.call("PUT", f"{TEAM}members/new/", {"role": "planner"}).json() == {"person": "new", "role": "planner"}
    assert admin.call("PUT", f"{TEAM}members/nobody/", {"role": "planner"}).status_code == 404
    assert admin.call("PUT", f"{TEAM}members/new/", {"role": "king"}).status_code == 422
    assert {"person": "new", "role": "planner"} in admin.get(TEAM).json()["members"]
    assert admin.call("DELETE", f"{TEAM}members/new/").status_code == 204
    assert not Membership.objects.filter(user__username="new").exists()
    assert admin.call("DELETE", f"{TEAM}members/new/").status_code == 404


def test_the_last_admin_stays(caller: Callable[..., Caller]) -> None:
    admin = caller("boss", role=Role.ADMIN)
    assert admin.call("DELETE", f"{TEAM}members/boss/").status_code == 409
    assert admin.call("PUT", f"{TEAM}members/boss/", {"role": "viewer"}).status_code == 409
    caller("second", role=Role.ADMIN)
    assert admin.call("PUT", f"{TEAM}members/boss/", {"role": "viewer"}).status_code == 200


def test_a_team_is_renamed_against_the_state_that_was_read(caller: Callable[..., Caller]) -> None:
    admin = caller("boss", role=Role.ADMIN)
    tag = admin.get(TEAM)["ETag"]
    assert admin.call("PATCH", TEAM, {"name": "Night"}).status_code == 428
    assert admin.call("PATCH", TEAM, {"name": "Night"}, If_Match=tag).json()["name"] == "Night"
    assert admin.call("PATCH", TEAM, {"name": "Day"}, If_Match=tag).status_code == 412


def test_a_teams_tag_stands_for_its_members_too(caller: Callable[..., Caller]) -> None:
    admin = caller("boss", role="admin")
    User.objects.create_user("newcomer")
    where, tag = f"{TEAM}members/newcomer/", admin.get(TEAM)["ETag"]
    assert admin.call("PUT", where, {"role": "viewer"}, If_Match=tag).status_code == 200
    fresh = admin.get(TEAM)["ETag"]
    assert fresh != tag, "the members are in what was read"
    assert admin.call("PUT", where, {"role": "admin"}, If_Match=tag).status_code == 412
    assert admin.call("DELETE", where, If_Match=tag).status_code == 412
    assert admin.call("PUT", where, {"role": "viewer"}).status_code == 200
    assert admin.get(TEAM)["ETag"] == fresh, "nothing changed"
    assert admin.call("DELETE", where, If_Match=fresh).status_code == 204
    assert admin.get(TEAM)["ETag"] not in (tag, fresh)


def test_the_log_says_who_did_what_under_which_request(caller: Callable[..., Caller]) -> None:
    admin = caller("boss", role=Role.ADMIN)
    User.objects.create_user("new")
    admin.call("PUT", f"{TEAM}members/new/", {"role": "planner"}, X_Request_ID="abc-1")
    event = admin.get("/api/v1/audit/?action=member.set").json()["results"][0]
    assert (event["person"], event["subject"], event["changes"]) == ("boss", "new", {"role": [None, "planner"]})
    assert event["request_id"] == "abc-1"
    assert admin.get("/api/v1/audit/?action=none").json()["results"] == []


def test_a_session_sees_every_team_of_the_person_and_a_token_one(person: Callable[..., User], other_team: Team) -> None:
    ann = person("ann")
    Membership.objects.create(team=other_team, user=ann, role=Role.VIEWER)
    client = quiet_client()
    client.force_login(ann)
    rows = client.get("/api/v1/teams/").json()["results"]
    assert [(row["slug"], row["role"]) for row in rows] == [("ours", "planner"), ("theirs", "viewer")]
