"""What stored measurements of devices teach, each predicted anew by the formulas of today."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from accounting.estimate import estimate
from accounting.evidence import SHIPPED, Point
from accounting.memory.device import ranges_of
from accounting.scenario import Scenario
from planner.errors import InvalidRequest
from planner.plans.documents import canonical_text, digest_of
from planner.requests import RequestContext, context_for, read_estimate
from planner.validation.calibration import Pair, calibration_store, is_held_out
from planner.validation.models import CalibrationSet, ValidationRun, ValidationStatus

LEARNT_FROM = ("gpu", "import")
"""Kinds that measure a device; the others judge formulas to the byte and teach no range."""
LEVELS = ("device_bytes", "peak_reserved_bytes", "peak_allocated_bytes")
"""From the outermost: the first one that was measured teaches."""


def measured_runs() -> Iterator[tuple[ValidationRun, dict[str, Any], Scenario]]:
    """Every stored measurement of a device, oldest first, with its answer and the scenario that was run.

    One whose request reads no more (its model is gone, say) is left out.
    """
    contexts: dict[int, RequestContext] = {}
    runs = ValidationRun.objects.filter(kind__in=LEARNT_FROM, status=ValidationStatus.SUCCEEDED)
    for run in runs.select_related("team").order_by("finished_at", "pk").iterator(chunk_size=200):
        answer = json.loads(run.answer)
        if run.team_id not in contexts:
            # The formulas alone: a set must not learn from what another set said.
            contexts[run.team_id] = replace(context_for(run.team), evidence=SHIPPED)
        try:
            yield run, answer, read_estimate(answer["measured_request"], contexts[run.team_id])
        except InvalidRequest:
            continue


def measured_pairs() -> Iterator[Pair]:
    """Measured beside predicted bytes, at the outermost level that was measured."""
    for _, answer, scenario in measured_runs():
        level = next((name for name in LEVELS if answer["measured"].get(name)), None)
        if level is not None:
            found = estimate(scenario)
            names, chosen = ranges_of(found.context)
            yield Pair(
                key=digest_of(canonical_text(answer["measured_request"])),
                range=names[int(chosen[0, 0])],
                predicted=int(getattr(found, level)[0, 0]),
                measured=int(answer["measured"][level]),
                point=point_of(scenario),
            )


def measured_steps() -> list[dict[str, Any]]:
    """Stored seconds of a step as rows of measured runs: request, expectation, source, and the part it stands in.

    The configurations that are held out are those that judge ranges too. Requests that only one team can read, for
    they name its own model, are left out.
    """
    everybody = replace(context_for(None), evidence=SHIPPED)
    rows = []
    for run, answer, _ in measured_runs():
        seconds, asked = answer["measured"].get("step_seconds"), answer["measured_request"]
        if seconds and _reads(asked, everybody):
            part = "report" if is_held_out(digest_of(canonical_text(asked))) else "fit"
            expected = {"step_seconds": float(seconds)}
            rows.append(
                {"id": str(run.pk), "request": asked, "expect": expected, "source": "stored validations", "part": part}
            )
    return rows


def _reads(asked: object, context: RequestContext) -> bool:
    try:
        read_estimate(asked, context)
    except InvalidRequest:
        return False
    return True


def point_of(scenario: Scenario) -> Point:
    """What a distance needs of a configuration."""
    layout = scenario.layout
    return Point(
        parameters=scenario.recipe.model.parameters,
        devices=int(layout.count[0, 0]),
        tokens=int((layout.micro_batch_size * layout.sequence_length)[0, 0]),
    )


def calibration_learn() -> CalibrationSet | None:
    """Store what the present measurements teach as a new version and put it in force; None where they teach nothing."""
    newest = ValidationRun.objects.filter(kind__in=LEARNT_FROM, status=ValidationStatus.SUCCEEDED)
    last = newest.order_by("-finished_at").values_list("finished_at", flat=True).first()
    return calibration_store(pairs=list(measured_pairs()), newest=last)
