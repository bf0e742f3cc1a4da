"""Reads of the models a team may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from accounting.naming import LONGEST_NAME, NameLookupError, nearest_names, resolve_name
from planner.specs.models import ModelSpec

if TYPE_CHECKING:
    from planner.teams.models import Team


def visible_models(team: Team | None) -> dict[str, ModelSpec]:
    """Slug → model: everybody's and the team's own; the team's own wins where both have the slug. One query."""
    mine = Q(team=None) | Q(team=team) if team is not None else Q(team=None)
    specs = ModelSpec.objects.filter(mine, retired=False)
    return {spec.slug: spec for spec in sorted(specs, key=lambda spec: (spec.team_id is not None, spec.slug))}


def find_model(text: str, team: Team | None) -> ModelSpec:
    """The model meant by a slug, another name of it, a hub path (`owner/name`) or an unambiguous short name.

    Raises NameLookupError with the candidates or the nearest names.
    """
    return resolve_model(text, visible_models(team))


def resolve_model(text: str, specs: dict[str, ModelSpec]) -> ModelSpec:
    """The same over models already read: a batch of requests reads them once."""
    wanted = text.strip().rsplit("/", 1)[-1]
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
