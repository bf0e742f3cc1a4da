"""Writes of models: the import of a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounting.model import ConfigError, model_from_config
from hardware.revision import catalog_changed
from planner.documents import SLUG
from planner.errors import Conflict, Fault, InvalidRequest
from planner.ops.audit import audit
from planner.plans.documents import canonical_text
from planner.specs.models import Confidence, ModelSpec, Origin

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from planner.teams.models import Team

MAX_SOURCE = 300
"""As the column."""
MAX_MODELS = 1_000
MAX_CONFIG = 1 << 17
"""Characters. Every process holds a team's models in memory, and no published config.json comes near."""
ADDRESSES = frozenset({"import", "reading"})
"""What stands where a model's slug does in an address: a model of such a name could never be opened."""


def model_spec_import(
    *, config: Mapping[str, Any], name: str, team: Team | None, source: str, user: User | None = None
) -> ModelSpec:
    """A model of a config.json: the team's own, or everybody's where no team is given (then a new catalog revision).

    `user` is who asked, for the audit log.

    Raises InvalidRequest with every fault of the name and of the config, each below `/name`, `/source` and `/config`.
    """
    slug = name.strip().lower()
    faults = []
    if not SLUG.match(slug):
        detail = f"{name[:60]!r} is no slug: 128 of a-z, 0-9, dot, dash, underscore, a letter or digit first"
        faults.append(Fault("/name", "invalid_slug", detail))
    if slug in ADDRESSES:
        faults.append(Fault("/name", "reserved", f"models/{slug}/ is an address of ours; choose another name"))
    length = len(canonical_text(config))
    if length > MAX_CONFIG:
        detail = f"{length:,} characters; at most {MAX_CONFIG:,} are kept of a config.json: leave out what is no size"
        faults.append(Fault("/config", "too_long", detail))
    if len(source) > MAX_SOURCE:
        faults.append(Fault("/source", "too_long", f"{len(source)} characters; at most {MAX_SOURCE}"))
    try:
        model = model_from_config(config)
    except ConfigError as error:
        faults += [Fault(f"/config{fault.pointer}", fault.code, fault.detail) for fault in error.faults]
    if faults:
        raise InvalidRequest(faults)
    if team is not None and ModelSpec.objects.filter(team=team, retired=False).count() >= MAX_MODELS:
        raise Conflict(f"a team keeps at most {MAX_MODELS:,} models; have the operator retire those nobody plans with")
    spec = ModelSpec(
        slug=slug,
        name=name.strip(),
        team=team,
        family=model.architecture.family if model.architecture else "",
        config=dict(config),
        exact_parameters=model.parameters,
        facts={"warnings": list(model.warnings)},
        source=source or "config.json given by the team",
        checked_date=timezone.localdate(),
        confidence=Confidence.MEDIUM,
        origin=Origin.IMPORTED,
    )
    try:
        with transaction.atomic():
            spec.save()
            if team is None:
                catalog_changed(f"model {slug} imported")
            audit(team=team, user=user, action="model.imported", subject=slug)
    except IntegrityError:
        taken = Fault("/name", "taken", f"there is a model {slug!r} already; choose another name or retire that one")
        raise InvalidRequest([taken], status=409) from None
    return spec
