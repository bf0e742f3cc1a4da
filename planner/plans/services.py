"""Writing plans. How a row is claimed, kept and ended stands in `planner.jobs.leases`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from planner.errors import Fault, InvalidRequest, NotFound, PlanFinal, idempotency_key_reused
from planner.jobs.leases import check_key, claim, finish, heartbeat, lease_length, sweep
from planner.ops.audit import audit
from planner.plans.documents import canonical_text, digest_of
from planner.plans.models import FINAL, PlanRun, PlanStatus
from planner.plans.selectors import plan_of
from planner.queue import PLAN_RUN, enqueue_on_commit, send
from planner.requests import context_for, read_plan
from planner.webhooks.services import webhook_named, webhook_tell

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from planner.teams.models import Team
    from planner.webhooks.models import Webhook

log = structlog.get_logger(__name__)

WEBHOOK_POINTER = "/webhook"


def _open() -> QuerySet[PlanRun]:
    return PlanRun.objects.exclude(status__in=FINAL)


def plan_create(
    *,
    team: Team,
    user: User | None,
    payload: object,
    idempotency_key: str | None = None,
    enqueue: bool = True,
) -> tuple[PlanRun, bool]:
    """Store a plan and ring for a worker; (plan, whether it is new).

    The same key with the same body gives the first plan; with another body, or a body that has faults, it raises
    `InvalidRequest`. With `enqueue` off the caller runs the plan itself.
    """
    text = canonical_text(payload)
    digest = digest_of(text)
    if idempotency_key is not None:
        check_key(idempotency_key)
        if (earlier := _earlier(team, idempotency_key, digest)) is not None:
            return earlier, False
    webhook = _read(team, payload)
    try:
        with transaction.atomic():
            run = PlanRun.objects.create(
                team=team,
                owner=user,
                request=text,
                request_digest=digest,
                idempotency_key=idempotency_key,
                webhook=webhook,
                webhook_due=webhook is not None,
                send_after=timezone.now() + lease_length(),
            )
            audit(team=team, user=user, action="plan.created", subject=str(run.pk))
            if enqueue:
                enqueue_on_commit(PLAN_RUN, run.pk)
    except IntegrityError:
        if idempotency_key is None or (earlier := _earlier(team, idempotency_key, digest)) is None:
            raise
        return earlier, False
    return run, True


def plan_rerun(
    *, team: Team, user: User | None, plan_id: UUID, idempotency_key: str | None = None, enqueue: bool = True
) -> PlanRun:
    """Plan a saved request anew, with today's catalog, prices and engine; the saved plan stays as it is.

    Raises NotFound for another team's plan, and InvalidRequest where today's catalog lacks what the request names, or
    where the key is the one that the saved plan itself was asked for with: the saved plan is no answer here.
    """
    payload = json.loads(plan_of(team, plan_id).request)
    run, _ = plan_create(team=team, user=user, payload=payload, idempotency_key=idempotency_key, enqueue=enqueue)
    if run.pk == plan_id:
        raise idempotency_key_reused()
    return run


def _read(team: Team, payload: object) -> Webhook | None:
    """The endpoint to tell. Raises InvalidRequest with every fault of the request, that of the webhook's name too."""
    faults: list[Fault] = []
    try:
        read_plan(payload, context_for(team))
    except InvalidRequest as error:
        faults += error.faults
    if any(fault.pointer == WEBHOOK_POINTER for fault in faults):
        raise InvalidRequest(faults)
    webhook, unknown = webhook_named(team, payload)
    if faults or unknown:
        raise InvalidRequest([*faults, *unknown])
    return webhook


def _earlier(team: Team, key: str, digest: str) -> PlanRun | None:
    earlier = PlanRun.objects.filter(team=team, idempotency_key=key).first()
    if earlier is not None and earlier.request_digest != digest:
        raise idempotency_key_reused()
    return earlier


def plan_cancel(*, plan_id: UUID, team: Team, user: User | None = None) -> PlanRun:
    """End a queued or running plan; a runner notices at its next heartbeat. Cancelling twice is no fault."""
    with transaction.atomic():
        cancelled = _open().filter(pk=plan_id, team=team)
        if cancelled.update(status=PlanStatus.CANCELLED, finished_at=Now(), lease=None, error_code="", error_detail=""):
            audit(team=team, user=user, action="plan.cancelled", subject=str(plan_id))
    webhook_tell(plan_id=plan_id)
    run = PlanRun.objects.filter(pk=plan_id, team=team).first()
    if run is None:
        raise NotFound("there is no such plan")
    if run.status != PlanStatus.CANCELLED:
        raise PlanFinal(f"the plan has ended as {run.status}; it can no longer be cancelled")
    return run


def plan_claim(*, plan_id: UUID) -> UUID | None:
    """Take a plan that nobody holds, or whose holder fell silent: the new lease, or None if nothing is left to do."""
    return claim(_open(), plan_id, candidates_done=0, candidates_total=None)


def plan_heartbeat(*, plan_id: UUID, lease: UUID, done: int, total: int | None) -> bool:
    """Renew the lease and tell the progress; False where the plan was cancelled or taken over."""
    return heartbeat(_open(), plan_id, lease, candidates_done=done, candidates_total=total)


def plan_finish(*, plan_id: UUID, lease: UUID, status: PlanStatus, **result: object) -> bool:
    """Write the result once. False where the fence is lost: the result is then thrown away."""
    written = finish(_open(), plan_id, lease, status=status, **result)
    if written:
        webhook_tell(plan_id=plan_id)
    return written


def plans_sweep() -> int:
    """Ring again for every plan that waits with nobody at work on it; the number sent. Safe to run twice at once."""
    sent = sweep(_open(), lambda run: send(PLAN_RUN, run.pk))
    if sent:
        log.info("plans_resent", count=sent)
    return sent
