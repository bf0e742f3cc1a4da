"""Counters of all processes in one place, the shared cache's server, and their text for a Prometheus collector.

Web processes count in memory and hand over what they have once a second, so that counting costs a request nothing; a
server that is away costs counts and no request.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import redis
import structlog
from django.conf import settings
from django.db.models import Count, Min, QuerySet
from django.utils import timezone

from planner.ops.counters import counters
from planner.ops.periodic import silent_seconds
from planner.ops.schedule import SWEEP
from planner.plans.models import FINAL, PlanRun
from planner.validation.models import FINAL as VALIDATION_FINAL
from planner.validation.models import ValidationRun
from planner.webhooks.models import DeliveryStatus, WebhookDelivery

log = structlog.get_logger(__name__)

FLUSH_SECONDS = 1.0
LATENCY_BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 300, 1800)
HELP: Mapping[str, tuple[str, str]] = {
    "shardplan_estimates_total": ("counter", "Estimates answered, by outcome."),
    "shardplan_plans_ended_total": ("counter", "Plans that ended, by status."),
    "shardplan_candidates_total": ("counter", "Candidates looked at by finished searches."),
    "shardplan_search_seconds_total": ("counter", "Seconds spent by finished searches; candidates per second with it."),
    "shardplan_plan_seconds": ("histogram", "From a plan's creation to its end."),
    "shardplan_queue_depth": ("gauge", "Plans that have not ended, by status."),
    "shardplan_queue_oldest_seconds": ("gauge", "Age of the oldest queued plan."),
    "shardplan_validation_queue_depth": ("gauge", "Validations that have not ended, by status."),
    "shardplan_validation_queue_oldest_seconds": ("gauge", "Age of the oldest queued validation."),
    "shardplan_webhooks_pending": ("gauge", "Messages not yet taken by their endpoint."),
    "shardplan_worker_silent_seconds": ("gauge", "Since a worker last ran the schedule's job."),
}
NAMED = (
    *(f'shardplan_estimates_total{{outcome="{outcome}"}}' for outcome in ("ok", "invalid_request", "internal_error")),
    *(f'shardplan_plans_ended_total{{status="{status}"}}' for status in FINAL),
    "shardplan_candidates_total",
    "shardplan_search_seconds_total",
    *(f'shardplan_plan_seconds_bucket{{le="{edge}"}}' for edge in (*(f"{edge:g}" for edge in LATENCY_BUCKETS), "+Inf")),
    "shardplan_plan_seconds_count",
    "shardplan_plan_seconds_sum",
)
"""There from the first scrape on, as 0: a counter that appears as 1 has no rate, and an alert on its rate sleeps."""


class _Tally:
    """What this process has counted and not yet handed over."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: Any = Counter()  # of floats: seconds are added up like counts
        self.flushed = 0.0

    def add(self, counts: Mapping[str, float], *, now: bool) -> None:
        with self.lock:
            self.waiting.update(counts)
            if not now and time.monotonic() - self.flushed < FLUSH_SECONDS:
                return
            taken, self.waiting = self.waiting, Counter()
            self.flushed = time.monotonic()
        _hand_over(taken)


_TALLY = _Tally()


def _key() -> str:
    return f"{settings.REDIS_PREFIX}metrics"


def _hand_over(counts: Mapping[str, float]) -> None:
    try:
        with counters().pipeline(transaction=False) as pipe:
            for name, value in counts.items():
                pipe.hincrbyfloat(_key(), name, value)
            pipe.execute()
    except redis.RedisError as error:
        # The command line has no broker to count at, and /readyz tells of a broker that is away.
        log.debug("metrics_lost", error=type(error).__name__)


def count_estimate(outcome: str) -> None:
    """`ok`, or the code of the refusal."""
    _TALLY.add({f'shardplan_estimates_total{{outcome="{outcome}"}}': 1}, now=False)


def count_plan_end(run: PlanRun, search_seconds: float) -> None:
    """A plan's end, from the process that wrote it; `run` as it now stands in the database."""
    counts: dict[str, float] = {f'shardplan_plans_ended_total{{status="{run.status}"}}': 1}
    if run.finished_at is not None:
        seconds = max(0.0, (run.finished_at - run.created_at).total_seconds())
        counts |= {f'shardplan_plan_seconds_bucket{{le="{edge:g}"}}': 1 for edge in LATENCY_BUCKETS if seconds <= edge}
        counts |= {
            'shardplan_plan_seconds_bucket{le="+Inf"}': 1,
            "shardplan_plan_seconds_count": 1,
            "shardplan_plan_seconds_sum": seconds,
        }
    if search_seconds:
        counts |= {
            "shardplan_candidates_total": run.candidates_done,
            "shardplan_search_seconds_total": search_seconds,
        }
    _TALLY.add(counts, now=True)


def exposition() -> str:
    """The text format 0.0.4: counters as handed over, gauges as the database has them now."""
    _TALLY.add({}, now=True)
    try:
        kept = cast("dict[str, str]", counters().hgetall(_key()))
    except redis.RedisError:
        kept = {}
    counted = dict.fromkeys(NAMED, 0.0) | {name: float(value) for name, value in kept.items()}
    rows = counted | dict(_gauges())
    return "\n".join([*_lines(rows), ""])


def _gauges() -> Iterator[tuple[str, float]]:
    yield from _waiting("shardplan_queue", PlanRun.objects.exclude(status__in=FINAL))
    yield from _waiting("shardplan_validation_queue", ValidationRun.objects.exclude(status__in=VALIDATION_FINAL))
    pending = WebhookDelivery.objects.filter(status=DeliveryStatus.PENDING).count()
    yield "shardplan_webhooks_pending", pending
    if (silent := silent_seconds(SWEEP)) is not None:
        yield "shardplan_worker_silent_seconds", silent


def _waiting(name: str, jobs: QuerySet[Any]) -> Iterator[tuple[str, float]]:
    """How many jobs of a kind wait and run, and for how long the oldest has waited."""
    rows = jobs.order_by().values("status").annotate(count=Count("pk"), oldest=Min("created_at"))
    depth: dict[str, Any] = {row["status"]: row for row in rows}
    for status in ("queued", "running"):
        yield f'{name}_depth{{status="{status}"}}', depth.get(status, {}).get("count", 0)
    oldest = depth.get("queued", {}).get("oldest")
    yield f"{name}_oldest_seconds", (timezone.now() - oldest).total_seconds() if oldest else 0.0


def _lines(rows: Mapping[str, float]) -> Iterable[str]:
    for family, (kind, help_text) in HELP.items():
        mine = [name for name in rows if name.partition("{")[0].startswith(family)]
        if not mine:
            continue
        yield f"# HELP {family} {help_text}"
        yield f"# TYPE {family} {kind}"
        for name in sorted(mine, key=_edge):
            yield f"{name} {rows[name]:.12g}"


def _edge(name: str) -> tuple[str, float]:
    """Histogram buckets in the order of their edges."""
    head, _, label = name.partition('{le="')
    return head, float(label.removesuffix('"}')) if label else 0.0
