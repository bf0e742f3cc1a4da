"""The order of what waits at the broker, on a real one: the sweep is taken before any plan."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings

from planner.celery import app
from planner.queue import PLAN_RUN, send


def test_the_sweep_overtakes_the_plans_that_wait() -> None:
    name = settings.CELERY_TASK_DEFAULT_QUEUE
    with app.connection_for_read() as broker:
        waiting = broker.SimpleQueue(app.amqp.queues[name])
        waiting.clear()
        try:
            assert all(send(PLAN_RUN, uuid4()) for _ in range(3))
            app.signature("planner.plans_sweep").apply_async(**settings.SWEEP_OPTIONS)
            taken = [waiting.get(block=True, timeout=5) for _ in range(4)]
            assert [message.headers["task"] for message in taken] == ["planner.plans_sweep", *[PLAN_RUN] * 3]
            for message in taken:
                message.ack()
        finally:
            waiting.clear()
            waiting.close()
