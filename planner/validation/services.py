"""Writing validations. How a row is claimed, kept and ended stands in `planner.jobs.leases`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from planner.errors import NotFound, PlannerError, idempotency_key_reused
from planner.jobs.leases import check_key, claim, finish, heartbeat, lease_length, sweep
from planner.ops.audit import audit
from planner.plans.documents import canonical_text, digest_of
from planner.plans.selectors import plan_of
from planner.queue import enqueue_on_commit, send
from planner.validation.kinds import KINDS
from planner.validation.models import FINAL, ValidationRun, ValidationStatus
from planner.validation.selectors import case_for

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from planner.teams.models import Team

log = structlog.get_logger(__name__)


class ValidationFinal(PlannerError):
    status = 409
    code = "validation_final"
    title = "The validation has already ended"


def _open() -> QuerySet[ValidationRun]:
    return ValidationRun.objects.exclude(status__in=FINAL)


def validation_create(
    *, team: Team, user: User | None, payload: object, idempotency_key: str | None = None, enqueue: bool = True
) -> tuple[ValidationRun, bool]:
    """Store a validation and ring for a worker of its queue; (validation, whether it is new).

    The same key with the same body gives the first one; with another body, or a body that has faults, it raises
    InvalidRequest. With `enqueue` off the caller runs it itself.
    """
    text = canonical_text(payload)
    digest = digest_of(text)
    if idempotency_key is not None:
        check_key(idempotency_key)
        if (earlier := _earlier(team, idempotency_key, digest)) is not None:
            return earlier, False
    case = case_for(team, payload)
    scenario = case.scenario
    try:
        with transaction.atomic():
            run = ValidationRun.objects.create(
                team=team,
                owner=user,
                request=text,
                request_digest=digest,
                idempotency_key=idempotency_key,
                kind=case.kind.name,
                model=scenario.recipe.model.slug or "",
                sharding_engine=scenario.recipe.engine.value,
                accelerator=scenario.machine.accelerators[0].slug,
                send_after=timezone.now() + lease_length(),
            )
            audit(team=team, user=user, action="validation.created", subject=str(run.pk))
            if enqueue:
                enqueue_on_commit(case.kind.task, run.pk)
    except IntegrityError:
        if idempotency_key is None or (earlier := _earlier(team, idempotency_key, digest)) is None:
            raise
        return earlier, False
    return run, True


def validation_of_option(
    *, team: Team, user: User | None, plan_id: UUID, rank: int, kind: str | None = None
) -> ValidationRun:
    """Measure one option of a plan: by the kind named, else by the cheapest that confirms most of it.

    Raises NotFound without such a plan or option, InvalidRequest where it cannot be measured (so).
    """
    answer = json.loads(plan_of(team, plan_id).answer or "{}")
    option = next((row for row in answer.get("options", ()) if row["rank"] == rank), None)
    if option is None:
        raise NotFound("this plan has no such option")
    payload = {"request": option["estimate"]} | ({} if kind is None else {"kind": kind})
    run, _ = validation_create(team=team, user=user, payload=payload)
    return run


def _earlier(team: Team, key: str, digest: str) -> ValidationRun | None:
    earlier = ValidationRun.objects.filter(team=team, idempotency_key=key).first()
    if earlier is not None and earlier.request_digest != digest:
        raise idempotency_key_reused()
    return earlier


def validation_cancel(*, validation_id: UUID, team: Team, user: User | None = None) -> ValidationRun:
    """End a queued or running validation; its runner notices at the next heartbeat and kills the measurement.

    `user` is who asked, for the audit log.
    """
    with transaction.atomic():
        if (
            _open()
            .filter(pk=validation_id, team=team)
            .update(status=ValidationStatus.CANCELLED, finished_at=Now(), lease=None, error_code="", error_detail="")
        ):
            audit(team=team, user=user, action="validation.cancelled", subject=str(validation_id))
    run = ValidationRun.objects.filter(pk=validation_id, team=team).first()
    if run is None:
        raise NotFound("there is no such validation")
    if run.status != ValidationStatus.CANCELLED:
        raise ValidationFinal(f"the validation has ended as {run.status}; it can no longer be cancelled")
    return run


def validation_claim(*, validation_id: UUID) -> UUID | None:
    return claim(_open(), validation_id, progress=0.0)


def validation_heartbeat(*, validation_id: UUID, lease: UUID, progress: float) -> bool:
    return heartbeat(_open(), validation_id, lease, progress=min(1.0, max(0.0, progress)))


def validation_finish(*, validation_id: UUID, lease: UUID, status: ValidationStatus, **result: object) -> bool:
    """Write the result once. False where the fence is lost: the result is then thrown away."""
    return finish(_open(), validation_id, lease, status=status, **result)


def validations_sweep() -> int:
    """Ring again for every validation that waits with nobody at work on it, each on its kind's queue."""
    sent = sweep(_open(), lambda run: send(KINDS[run.kind].task, run.pk))
    if sent:
        log.info("validations_resent", count=sent)
    return sent
