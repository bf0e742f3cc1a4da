"""A plan's life: made once per key, claimed by one, ended once, never lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, ProgrammingError, connection, transaction
from django.utils import timezone
from psycopg.errors import UndefinedColumn

from planner.errors import InvalidRequest, NotFound, PlanFinal
from planner.jobs.leases import MAX_ATTEMPTS
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.running import plan_execute
from planner.plans.services import (
    plan_cancel,
    plan_claim,
    plan_create,
    plan_finish,
    plan_heartbeat,
    plans_sweep,
)
from planner.search import SearchCancelled
from planner.teams.models import Team
from tests.people import ANSWER, PLAN

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_search", "rings")]


def made(team: Team, **more: Any) -> PlanRun:
    run, _ = plan_create(team=team, user=None, payload=PLAN, **more)
    return run


def let_lease_end(run: PlanRun) -> None:
    past = timezone.now() - timedelta(seconds=1)
    PlanRun.objects.filter(pk=run.pk).update(lease_until=past, send_after=past)


def test_same_key_gives_the_first_plan_and_another_body_is_refused(team: Team) -> None:
    first, created = plan_create(team=team, user=None, payload=PLAN, idempotency_key="k")
    again, created_again = plan_create(team=team, user=None, payload=dict(reversed(PLAN.items())), idempotency_key="k")
    assert (created, created_again) == (True, False)
    assert first.pk == again.pk
    with pytest.raises(InvalidRequest) as caught:
        plan_create(team=team, user=None, payload={**PLAN, "options": 4}, idempotency_key="k")
    assert caught.value.faults[0].code == "idempotency_key_reused"


def test_another_teams_same_key_is_another_plan(team: Team, other_team: Team) -> None:
    assert made(team, idempotency_key="k").pk != made(other_team, idempotency_key="k").pk


def test_a_faulty_request_stores_nothing(team: Team) -> None:
    with pytest.raises(InvalidRequest):
        plan_create(team=team, user=None, payload={}, idempotency_key="k")
    assert not PlanRun.objects.exists()


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_racing_copies_of_one_key_make_one_plan(team: Team, rings: list[Any]) -> None:
    start = threading.Barrier(8)

    def create(_: int) -> Any:
        start.wait()
        try:
            return made(team, idempotency_key="k").pk
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(create, range(8)))
    assert len(ids) == 1
    assert PlanRun.objects.count() == 1
    assert len(rings) == 1


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_racing_workers_claim_once(team: Team) -> None:
    run = made(team)
    start = threading.Barrier(8)

    def claim(_: int) -> Any:
        start.wait()
        try:
            return plan_claim(plan_id=run.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        leases = [lease for lease in pool.map(claim, range(8)) if lease]
    assert len(leases) == 1
    run.refresh_from_db()
    assert (run.attempts, run.lease) == (1, leases[0])


def test_execute_stores_the_answer_to_the_byte(team: Team) -> None:
    run = made(team)
    assert plan_execute(plan_id=run.pk)
    run.refresh_from_db()
    assert (run.status, run.progress, run.lease) == (PlanStatus.SUCCEEDED, 1.0, None)
    stored = json.loads(run.answer)
    assert run.answer.startswith('{"recommendation":{"rank":1,"usd":1e+22,"hours":-0.0}')
    assert stored["provenance"]["request_digest"] == run.request_digest
    assert {name: stored[name] for name in ANSWER} == ANSWER


def test_a_second_copy_of_the_message_does_nothing(team: Team) -> None:
    run = made(team)
    assert plan_execute(plan_id=run.pk)
    finished = PlanRun.objects.get(pk=run.pk).finished_at
    assert not plan_execute(plan_id=run.pk)
    assert PlanRun.objects.get(pk=run.pk).finished_at == finished
    assert not plan_execute(plan_id=uuid4())


def test_a_taken_over_runner_is_fenced_off(team: Team) -> None:
    run = made(team)
    slow = plan_claim(plan_id=run.pk)
    assert slow
    assert plan_claim(plan_id=run.pk) is None
    let_lease_end(run)
    fast = plan_claim(plan_id=run.pk)
    assert fast
    assert not plan_heartbeat(plan_id=run.pk, lease=slow, done=1, total=2)
    assert not plan_finish(plan_id=run.pk, lease=slow, status=PlanStatus.SUCCEEDED, answer='{"late":1}')
    assert plan_finish(plan_id=run.pk, lease=fast, status=PlanStatus.SUCCEEDED, answer='{"first":1}')
    assert not plan_finish(plan_id=run.pk, lease=fast, status=PlanStatus.FAILED)
    assert PlanRun.objects.get(pk=run.pk).answer == '{"first":1}'


def test_heartbeat_moves_lease_and_progress(team: Team) -> None:
    run = made(team)
    lease = plan_claim(plan_id=run.pk)
    assert lease
    before = PlanRun.objects.get(pk=run.pk).lease_until
    assert plan_heartbeat(plan_id=run.pk, lease=lease, done=1, total=4)
    run.refresh_from_db()
    assert run.lease_until > before
    assert run.progress == 0.25


def test_cancelling_queued_and_running_plans_keeps_them_cancelled(
    team: Team, quick_search: Callable[..., None]
) -> None:
    queued = made(team)
    assert plan_cancel(plan_id=queued.pk, team=team).status == PlanStatus.CANCELLED
    assert not plan_execute(plan_id=queued.pk)
    running = made(team)

    def cancelled_while_searching(problem: object, progress: Any, cancelled: Callable[[], bool]) -> dict[str, Any]:
        plan_cancel(plan_id=running.pk, team=team)
        progress(5, 5)
        if cancelled():
            raise SearchCancelled
        return ANSWER

    quick_search(cancelled_while_searching)
    assert not plan_execute(plan_id=running.pk)
    statuses = set(PlanRun.objects.values_list("status", flat=True))
    assert statuses == {PlanStatus.CANCELLED}
    assert plan_cancel(plan_id=running.pk, team=team).pk == running.pk


def test_an_ended_plan_and_another_teams_plan_cannot_be_cancelled(team: Team, other_team: Team) -> None:
    run = made(team)
    with pytest.raises(NotFound):
        plan_cancel(plan_id=run.pk, team=other_team)
    plan_execute(plan_id=run.pk)
    with pytest.raises(PlanFinal):
        plan_cancel(plan_id=run.pk, team=team)


def test_the_sweeper_rings_for_what_nobody_works_on(team: Team, rings: list[Any]) -> None:
    waiting, lost, alive, done = (made(team) for _ in range(4))
    assert plan_claim(plan_id=lost.pk)
    assert plan_claim(plan_id=alive.pk)
    plan_execute(plan_id=done.pk)
    let_lease_end(waiting)
    let_lease_end(lost)
    PlanRun.objects.filter(pk=alive.pk).update(send_after=timezone.now() - timedelta(seconds=1))
    rings.clear()
    assert plans_sweep() == 2
    assert set(rings) == {waiting.pk, lost.pk}
    assert plans_sweep() == 0


def test_the_sweeper_keeps_what_a_dead_broker_did_not_take(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(team)
    let_lease_end(run)
    monkeypatch.setattr("planner.plans.services.send", lambda task, row: False)
    assert plans_sweep() == 0
    monkeypatch.setattr("planner.plans.services.send", lambda task, row: True)
    assert plans_sweep() == 1


def test_a_plan_that_kills_its_workers_ends_failed(team: Team) -> None:
    run = made(team)
    for _ in range(MAX_ATTEMPTS):
        assert plan_claim(plan_id=run.pk)
        let_lease_end(run)
    assert plan_claim(plan_id=run.pk) is None
    run.refresh_from_db()
    assert (run.status, run.error_code, run.attempts) == (PlanStatus.FAILED, "worker_lost_repeatedly", MAX_ATTEMPTS)


def test_a_fault_in_the_search_ends_failed_without_its_text(team: Team, quick_search: Callable[..., None]) -> None:
    def broken(*_: object) -> dict[str, Any]:
        raise ZeroDivisionError("secret detail")

    quick_search(broken)
    run = made(team)
    assert plan_execute(plan_id=run.pk)
    run.refresh_from_db()
    assert (run.status, run.error_code) == (PlanStatus.FAILED, "internal_error")
    assert "secret" not in run.error_detail


def test_nothing_found_is_infeasible_with_its_answer(team: Team, quick_search: Callable[..., None]) -> None:
    quick_search(lambda *_: {**ANSWER, "recommendation": None})
    run = made(team)
    assert plan_execute(plan_id=run.pk)
    run.refresh_from_db()
    assert run.status == PlanStatus.INFEASIBLE
    assert json.loads(run.answer)["rejections"] == {"memory": 3}


@pytest.mark.parametrize(
    "change",
    [
        {"status": "unheard-of"},
        {"status": "succeeded", "finished_at": timezone.now(), "answer": ""},
        {"status": "succeeded", "answer": "{}"},
        {"status": "queued", "finished_at": timezone.now()},
        {"status": "running", "lease": None},
    ],
)
def test_the_database_refuses_states_that_cannot_be(team: Team, change: dict[str, Any]) -> None:
    run = made(team)
    with pytest.raises(IntegrityError), transaction.atomic():
        PlanRun.objects.filter(pk=run.pk).update(**change)


def test_a_worker_ahead_of_the_migrations_leaves_the_plan_to_another(
    team: Team, quick_search: Callable[..., None]
) -> None:
    def ahead(*_: object) -> dict[str, Any]:
        raise ProgrammingError("no such column") from UndefinedColumn()

    quick_search(ahead)
    run = made(team)
    with pytest.raises(ProgrammingError):
        plan_execute(plan_id=run.pk)
    run.refresh_from_db()
    assert run.status == PlanStatus.RUNNING, "its lease runs out, and the sweep rings again"
