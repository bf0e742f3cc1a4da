"""The request context of a team, from the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from accounting.model import Model
from hardware.snapshot import catalog_snapshot
from planner.pools.selectors import TeamPools
from planner.requests.context import RequestContext
from planner.requests.models import model_of
from planner.specs.selectors import resolve_model, visible_models
from planner.validation.calibration import evidence_in_force

if TYPE_CHECKING:
    from planner.specs.models import ModelSpec
    from planner.teams.models import Team


def context_for(team: Team | None) -> RequestContext:
    """What a team may name; None: what everybody may. Models are read when the first one is named, then kept."""
    seen: list[Mapping[str, ModelSpec]] = []
    catalog = catalog_snapshot()

    def find(text: str) -> Model:
        if not seen:
            seen.append(visible_models(team, catalog.revision))
        spec = resolve_model(text, seen[0])
        described = ("config", spec.config) if spec.config is not None else ("architecture", spec.architecture)
        return replace(model_of(*described), slug=spec.slug)

    pools = TeamPools(team, catalog)
    return RequestContext(catalog=catalog, find_model=find, pools=pools, evidence=evidence_in_force())
