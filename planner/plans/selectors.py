"""Reading plans: always through a team, so that another team's plan is simply not there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from planner.errors import NotFound
from planner.plans.models import PlanRun
from planner.teams.models import Team

POLL_SECONDS = 0.05
POLL_SLOWEST_SECONDS = 0.5


def plans_of(team: Team) -> QuerySet[PlanRun]:
    return PlanRun.objects.filter(team=team)


def plan_of(team: Team, plan_id: UUID) -> PlanRun:
    run = plans_of(team).filter(pk=plan_id).first()
    if run is None:
        raise NotFound("there is no such plan")
    return run


def plans_by_ids(team: Team, ids: Sequence[UUID]) -> list[PlanRun]:
    """In the order asked for. Raises NotFound where one is missing, or another team's."""
    found = plans_of(team).in_bulk(ids)
    if len(found) < len(set(ids)):
        raise NotFound("at least one of these plans is not there")
    return [found[plan_id] for plan_id in ids]


def plan_wait(run: PlanRun, seconds: float) -> PlanRun:
    """The plan as soon as it is final, or as it is after so many seconds."""
    deadline = time.monotonic() + seconds
    pause = POLL_SECONDS
    while not run.is_final and (left := deadline - time.monotonic()) > 0:
        if not connection.in_atomic_block:
            connection.close()  # back to the pool: a waiting client must not keep others from the database
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, POLL_SLOWEST_SECONDS)
        run.refresh_from_db()
    return run
