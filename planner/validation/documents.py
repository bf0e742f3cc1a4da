"""Texts of validations, as the API and the command line give them."""

from __future__ import annotations

import json
from typing import Any

from planner.documents import write_document
from planner.validation.models import ValidationRun


def validation_head(run: ValidationRun) -> dict[str, Any]:
    """The members that change while a validation lives."""
    return {"id": str(run.pk), "status": run.status, "progress": 1.0 if run.answer else run.progress}


def validation_summary(run: ValidationRun) -> dict[str, Any]:
    """A validation as a row of a list."""
    return {
        **validation_head(run),
        "kind": run.kind,
        "model": run.model or None,
        "engine": run.sharding_engine or None,
        "accelerator": run.accelerator or None,
        "framework": run.framework or None,
        "agrees": run.agrees,
        "predicted_bytes": run.predicted_bytes,
        "measured_bytes": run.measured_bytes,
        "predicted_seconds": run.predicted_seconds,
        "measured_seconds": run.measured_seconds,
        "created_at": moment(run.created_at),
        "started_at": moment(run.started_at),
        "finished_at": moment(run.finished_at),
        "url": f"/api/v1/validations/{run.pk}/",
    }


def validation_text(run: ValidationRun) -> str:
    """The whole validation; the stored answer is spliced in as it stands."""
    if run.answer:
        return f"{write_document(validation_head(run))[:-1]},{run.answer[1:]}"
    waiting = validation_summary(run) | {"request": json.loads(run.request)}
    if run.error_code:
        waiting["error"] = {"code": run.error_code, "detail": run.error_detail}
    return write_document(waiting)


def moment(value: Any) -> str | None:
    """A moment as the API writes it."""
    return None if value is None else value.isoformat().replace("+00:00", "Z")
