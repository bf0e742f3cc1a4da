"""Tokens made, replaced and ended by their owners through the API. A text is shown once and kept nowhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from knox.models import get_digest_token

from planner.errors import Conflict, Forbidden, InvalidRequest, NotFound
from planner.ops.audit import audit
from planner.requests.fields import INVALID, Faults, Member, Record, Text, Whole, Word
from planner.teams.models import ApiToken, Scope
from planner.teams.selectors import ADMINISTER, Actor
from planner.teams.services import token_create

MAX_TOKENS = 100
"""Of one person in one team."""
MAX_DAYS = 3_650
TOKEN = Record(
    {
        "name": Member(Text(100), required=True, help="what it is for; once per person"),
        "scope": Member(Word(tuple(Scope.values)), default=Scope.PLAN.value, help="never more than your role allows"),
        "days": Member(Whole(1, MAX_DAYS), help="until it expires; without it, and at most, what the operator allows"),
    }
)


def tokens_seen(actor: Actor) -> QuerySet[ApiToken]:
    """One's own in this team; an admin sees everybody's."""
    rows = ApiToken.objects.select_related("user").filter(team=actor.team)
    return rows if ADMINISTER in actor.allowed else rows.filter(user=actor.user)


def token_seen(actor: Actor, public_id: UUID) -> ApiToken:
    token = tokens_seen(actor).filter(public_id=public_id).first()
    if token is None:
        raise NotFound("there is no such token")
    return token


def token_issue(*, actor: Actor, payload: object) -> tuple[ApiToken, str]:
    """(a new token of the actor, its text). Raises Forbidden, InvalidRequest, Conflict."""
    _may_manage(actor)
    faults = Faults()
    given: Any = TOKEN.read(payload, "", faults)
    longest = settings.TOKEN_DAYS
    if given is not INVALID and given.get("days", 1) > longest:
        faults.add("/days", "out_of_range", f"{given['days']:,} days; a token here lives for {longest:,} at most")
    if given is INVALID or faults.found:
        raise InvalidRequest(faults.found)
    scope, days = given.get("scope", Scope.PLAN.value), given.get("days", longest)
    with transaction.atomic():
        if ApiToken.objects.filter(team=actor.team, user=actor.user).count() >= MAX_TOKENS:
            raise Conflict(f"a person keeps at most {MAX_TOKENS} tokens in a team; revoke one first")
        try:
            with transaction.atomic():
                token, text = token_create(
                    team=actor.team, user=actor.user, name=given["name"], scope=scope, valid_for=timedelta(days=days)
                )
        except IntegrityError:
            detail = f"you have a token {given['name']!r} already; revoke it, rotate it, or take another name"
            raise Conflict(detail) from None
        changes = {"scope": [None, scope], "days": [None, days]}
        audit(team=actor.team, user=actor.user, action="token.created", subject=token.name, changes=changes)
    return token, text


@transaction.atomic
def token_rotate(*, actor: Actor, public_id: UUID) -> tuple[ApiToken, str]:
    """(the token, its new text): the old text is refused from the commit on, the life it was given starts anew."""
    token = token_seen(actor, public_id)
    _may_manage(actor)
    if token.user_id != actor.user.pk:
        raise Forbidden("only its owner rotates a token: whoever does learns the new text; revoke it instead")
    digest, text = get_digest_token()
    life = None if token.expiry is None else token.expiry - token.created
    now = timezone.now()
    # The digest is the primary key, so this is an UPDATE of it and not a save, which would make a second row.
    ApiToken.objects.filter(pk=token.pk).update(
        digest=digest,
        token_key=text[: len(token.token_key)],
        created=now,
        expiry=None if life is None else now + life,
        last_used_at=None,
    )
    audit(team=actor.team, user=actor.user, action="token.rotated", subject=token.name)
    return ApiToken.objects.select_related("user").get(public_id=public_id), text


@transaction.atomic
def token_revoke(*, actor: Actor, public_id: UUID) -> None:
    """End a token: one's own, or, for an admin, anybody's in the team."""
    token = token_seen(actor, public_id)
    _may_manage(actor)
    token.delete()
    audit(
        team=actor.team,
        user=actor.user,
        action="token.revoked",
        subject=token.name,
        changes={"owner": [token.user.get_username(), None]},
    )


def _may_manage(actor: Actor) -> None:
    if not actor.may_manage_tokens:
        raise Forbidden("tokens are managed signed in, or with a token of scope admin")
