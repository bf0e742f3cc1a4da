"""Reads of the models a team may name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.db.models import Q

from accounting.naming import LONGEST_NAME, NameLookupError, nearest_names, resolve_name
from hardware.revision import current_revision
from planner.specs.models import ModelSpec

if TYPE_CHECKING:
    from planner.teams.models import Team

HUB_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/([^/]+)\Z")
"""A hub names a model `owner/name`: one slash, a plain owner."""
TEAMS_KEPT = 64


def visible_models(team: Team | None, revision: int | None = None) -> Mapping[str, ModelSpec]:
    """Slug → model: everybody's and the team's own; the team's own wins where both have the slug.

    The rows hold whole config.json files, so they are read again only after one of them changed: the catalog's
    revision tells for everybody's (given by a caller who has just read it), a small query over an index for a team's.
    """
    team_id = team.pk if team is not None else None
    with connection.cursor() as cursor:
        cursor.execute(_STATE_QUERY, [team_id])
        newest, count = cursor.fetchone()
    return _read(team_id, current_revision() if revision is None else revision, newest, count)


_STATE_QUERY = f"""
    SELECT MAX(changed_at), COUNT(*) FROM {ModelSpec._meta.db_table}
    WHERE NOT retired AND (team_id IS NULL OR team_id = %s)
"""
"""Written out, for every request that names a model makes it: the ORM builds it longer than the database answers."""


def _mine(team_id: int | None) -> Any:
    mine = Q(team=None) if team_id is None else Q(team=None) | Q(team=team_id)
    return ModelSpec.objects.filter(mine, retired=False).order_by()


@lru_cache(maxsize=TEAMS_KEPT)
def _read(team_id: int | None, revision: int, newest: object, count: int) -> Mapping[str, ModelSpec]:
    specs = sorted(_mine(team_id), key=lambda spec: (spec.team_id is not None, spec.slug))
    return MappingProxyType({spec.slug: spec for spec in specs})


def find_model(text: str, team: Team | None) -> ModelSpec:
    """The model meant by a slug, another name of it, a hub path (`owner/name`) or an unambiguous short name.

    Raises NameLookupError with the candidates or the nearest names.
    """
    return resolve_model(text, visible_models(team))


def resolve_model(text: str, specs: Mapping[str, ModelSpec]) -> ModelSpec:
    """The same over models already read: a batch of requests reads them once."""
    wanted = _without_owner(text.strip())
    if wanted.lower() in specs:
        return specs[wanted.lower()]
    aliases = {alias: slug for slug, spec in specs.items() for alias in spec.aliases}
    if wanted.lower() in aliases:
        return specs[aliases[wanted.lower()]]
    try:
        return specs[resolve_name(wanted, specs, kind="model")]
    except NameLookupError as error:
        if error.code == "ambiguous":
            raise
        near = dict.fromkeys(aliases.get(name, name) for name in nearest_names(wanted, [*specs, *aliases]))
        raise NameLookupError(kind="model", text=text[:LONGEST_NAME], code="unknown", candidates=tuple(near)) from None


def _without_owner(text: str) -> str:
    """The name of `owner/name`; a longer path names nothing here and stays as it is."""
    found = HUB_PATH.match(text)
    return found[1] if found else text
