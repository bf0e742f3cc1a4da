"""Running one validation under its lease: the same in a Celery worker and inside a command."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings

from accounting.version import ENGINE_VERSION
from planner.documents import write_document
from planner.errors import InvalidRequest
from planner.ops.database import is_away
from planner.validation.cases import Case
from planner.validation.child import ChildFailed, ChildStopped, Limits, run_child
from planner.validation.compare import COMPARISONS, Comparison
from planner.validation.convergence import compare_convergence
from planner.validation.models import ValidationRun, ValidationStatus
from planner.validation.selectors import case_for
from planner.validation.services import validation_claim, validation_finish, validation_heartbeat

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS = 0.5
CUDA_KINDS = frozenset({"gpu"})

Result = tuple[ValidationStatus, dict[str, Any]]


def validation_execute(*, validation_id: UUID, watcher: Callable[[float], None] | None = None) -> bool:
    """Claim, measure, compare, finish. True where this call wrote the result.

    A database that goes away is raised: the lease then runs out and the sweeper hands the validation to another.
    """
    lease = validation_claim(validation_id=validation_id)
    if lease is None:
        return False
    run = ValidationRun.objects.select_related("team").get(pk=validation_id)
    beat = _Beat(validation_id, lease, watcher)
    try:
        status, result = _outcome(run, beat.alive)
    except ChildStopped:
        return False
    return validation_finish(validation_id=validation_id, lease=lease, status=status, **result)


class _Beat:
    """Renews the lease now and then; tells when the fence was lost."""

    def __init__(self, validation_id: UUID, lease: UUID, watcher: Callable[[float], None] | None) -> None:
        self.validation_id, self.lease, self.watcher = validation_id, lease, watcher
        self.last = float("-inf")
        self.kept = True

    def alive(self, progress: float) -> bool:
        now = time.monotonic()
        if self.kept and now - self.last >= HEARTBEAT_SECONDS:
            self.last = now
            self.kept = validation_heartbeat(validation_id=self.validation_id, lease=self.lease, progress=progress)
            if self.watcher is not None:
                self.watcher(progress)
        return self.kept


def _outcome(run: ValidationRun, alive: Callable[[float], bool]) -> Result:
    try:
        # The kind was chosen when the request came, where it named none.
        case = case_for(run.team, {**json.loads(run.request), "kind": run.kind})
        return _answer(run, case, *_measured(case, alive))
    except ChildStopped:
        raise
    except ChildFailed as fault:
        return _failure(fault.code, fault.detail)
    except InvalidRequest as error:
        # Valid when it was accepted: the catalog has changed since.
        return _failure("invalid_request", "; ".join(f"{fault.pointer}: {fault.detail}" for fault in error.faults))
    except Exception as error:
        if is_away(error):
            raise
        log.exception("validation_failed", validation=str(run.pk))
        return _failure(
            "internal_error", "the validation stopped on a fault of ours; it is in the log under this validation's id"
        )


def limits_of(kind: str) -> Limits:
    """What a measurement of a kind may take on this worker."""
    return Limits(
        seconds=settings.VALIDATION_SECONDS,
        memory_bytes=settings.VALIDATION_MEMORY_BYTES,
        processes=settings.VALIDATION_PROCESSES,
        kernel=kind not in CUDA_KINDS,
    )


def _measured(case: Case, alive: Callable[[float], bool]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """(the numbers, the environment they belong to). Raises ChildFailed or ChildStopped."""
    if case.measured is not None:
        numbers = dict(case.measured)
        return numbers, numbers.pop("environment")
    kind = case.kind.name
    found = run_child(kind, [dict(case.job)], python=settings.VALIDATION_PYTHON, limits=limits_of(kind), alive=alive)
    (result,) = found.results
    if "error" in result:
        raise ChildFailed(result["error"]["code"], result["error"]["detail"])
    return result, found.environment | result.pop("environment", {})


def compared(case: Case, measured: Mapping[str, Any]) -> Comparison:
    """Predicted beside measured, by the kind's own comparison."""
    if case.kind.name == "convergence":
        return compare_convergence(measured)
    return COMPARISONS[case.kind.name](case.scenario, measured)


def _answer(run: ValidationRun, case: Case, measured: Mapping[str, Any], environment: Mapping[str, Any]) -> Result:
    comparison = compared(case, measured)
    shown = {
        "kind": run.kind,
        "request": json.loads(run.request)["request"],
        "measured_request": case.request,
        "notes": list(case.notes),
        "predicted": comparison.predicted,
        "measured": measured,
        "comparison": comparison.answer(),
        "environment": environment,
        "engine_version": ENGINE_VERSION,
    }
    head = comparison.headline
    seconds = next((line for line in comparison.lines if line.line == "step_seconds"), None)
    return ValidationStatus.SUCCEEDED, {
        "answer": write_document(shown),
        "progress": 1.0,
        "framework": f"torch {environment['torch']}" if environment.get("torch") else "",
        "engine_version": ENGINE_VERSION,
        "agrees": comparison.agrees,
        "predicted_bytes": None if head is None or head.predicted is None else round(head.predicted),
        "measured_bytes": None if head is None or head.measured is None else round(head.measured),
        "predicted_seconds": None if seconds is None else seconds.predicted,
        "measured_seconds": None if seconds is None else seconds.measured,
    }


def _failure(code: str, detail: str) -> Result:
    return ValidationStatus.FAILED, {"error_code": code, "error_detail": detail}
