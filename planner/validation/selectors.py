"""Reading validations: always through a team; statistics over what the team may see."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from accounting.evidence import SHIPPED
from accounting.naming import NameLookupError
from planner.errors import NotFound
from planner.requests import context_for
from planner.specs.selectors import find_model
from planner.teams.models import Team
from planner.validation.cases import Case, read_case
from planner.validation.choice import chosen_case
from planner.validation.compare import quantiles
from planner.validation.documents import moment
from planner.validation.models import CalibrationSet, ValidationRun, ValidationStatus

POLL_SECONDS = 0.25
MOST_COUNTED = 10_000
GROUPS = ("kind", "sharding_engine", "accelerator", "framework")


def case_for(team: Team | None, payload: object) -> Case:
    """The case of a request, with the models and the catalog that a team sees. Raises InvalidRequest."""
    # Predicted by the formulas alone: a calibration set must not learn from what another one said.
    context = replace(context_for(team), evidence=SHIPPED)

    def config_for(model: Any) -> Any:
        if not isinstance(model, str):
            return None
        try:
            return find_model(model, team).config
        except NameLookupError:  # the estimate reader has already named it
            return None

    return chosen_case(payload, lambda named: read_case(named, context, config_for))


def validations_of(team: Team) -> QuerySet[ValidationRun]:
    return ValidationRun.objects.filter(team=team)


def validation_of(team: Team, validation_id: UUID) -> ValidationRun:
    run = validations_of(team).filter(pk=validation_id).first()
    if run is None:
        raise NotFound("there is no such validation")
    return run


def validation_wait(run: ValidationRun, seconds: float) -> ValidationRun:
    """The validation as soon as it is final, or as it is after so many seconds."""
    deadline = time.monotonic() + seconds
    while not run.is_final and (left := deadline - time.monotonic()) > 0:
        if not connection.in_atomic_block:
            connection.close()  # back to the pool: a waiting client must not keep others from the database
        time.sleep(min(POLL_SECONDS, left))
        run.refresh_from_db()
    return run


def statistics_of(runs: QuerySet[ValidationRun]) -> list[dict[str, Any]]:
    """Distribution of relative errors, (predicted - measured) / measured, by kind, engine, accelerator and version."""
    measured = runs.filter(status=ValidationStatus.SUCCEEDED, measured_bytes__gt=0, predicted_bytes__isnull=False)
    errors: dict[tuple[str, ...], list[float]] = defaultdict(list)
    agree: dict[tuple[str, ...], int] = defaultdict(int)
    for row in measured.values(*GROUPS, "predicted_bytes", "measured_bytes", "agrees")[:MOST_COUNTED]:
        group = tuple(row[name] for name in GROUPS)
        errors[group].append(row["predicted_bytes"] / row["measured_bytes"] - 1)
        agree[group] += bool(row["agrees"])
    return [
        {**dict(zip(GROUPS, group, strict=True)), **quantiles(found), "agree": agree[group]}
        for group, found in sorted(errors.items())
    ]


def calibrations() -> list[dict[str, Any]]:
    """Every calibration set, newest first, without the configurations behind its rows."""
    return [
        {
            "version": found.version,
            "in_force": found.in_force,
            "measurements": found.measurements,
            "newest": moment(found.newest),
            "engine_version": found.engine_version,
            "created_at": moment(found.created_at),
            "rows": [
                {name: value for name, value in row.items() if name != "points"} for row in json.loads(found.rows)
            ],
        }
        for found in CalibrationSet.objects.all()
    ]
