"""Probes: `/healthz` says that this process answers, `/readyz` whether what it needs does, `/metrics` how it goes."""

from collections.abc import Callable
from hmac import compare_digest

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.backoff import NoBackoff
from redis.retry import Retry

from planner.ops.metrics import exposition
from planner.ops.periodic import silent_seconds
from planner.ops.schedule import SWEEP, SWEEP_SECONDS
from planner.plans.models import PlanRun, PlanStatus

WORKER_SILENT_SECONDS = 6 * SWEEP_SECONDS
NOT_KNOWN = "Not known: the database does not answer."


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """200 as long as the process runs; touches nothing else."""
    return JsonResponse({"status": "ok"})


def _database() -> str | None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "The database does not answer."
    return None


def _migrations() -> str | None:
    try:
        executor = MigrationExecutor(connection)
    except DatabaseError:
        return NOT_KNOWN
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return "The database lacks migrations. Run: manage.py migrate"
    return None


def _broker() -> str | None:
    # redis-py retries a refused connection for seconds by default; a probe must answer at once.
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1, retry=Retry(NoBackoff(), 0)
    )
    try:
        client.ping()
    except redis.RedisError:
        return "The broker does not answer."
    finally:
        client.close()
    return None


def _worker() -> str | None:
    """A worker ran the schedule's job a moment ago, or is at work on a plan: the whole way to it is then open."""
    try:
        silent = silent_seconds(SWEEP)
        if silent is not None and silent <= WORKER_SILENT_SECONDS:
            return None
        if PlanRun.objects.filter(status=PlanStatus.RUNNING, lease_until__gt=Now()).exists():
            return None
    except DatabaseError:
        return NOT_KNOWN
    since = "ever" if silent is None else f"for {silent:.0f} s"
    return f"No worker has been heard {since}. Plans are taken and wait. Are a worker and beat running?"


CHECKS: dict[str, Callable[[], str | None]] = {"database": _database, "migrations": _migrations, "broker": _broker}


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """503 where this process cannot serve, with what is wrong.

    A silent worker takes no web server out of service, for plans are accepted and kept: 200 and `degraded`; a probe
    that wants to hear of it as a failure asks for `?worker=required`.
    """
    faults: dict[str, str | None] = {}
    for name, check in CHECKS.items():
        # Each question to a database that is away waits until it is sure of it: one is enough.
        faults[name] = NOT_KNOWN if name == "migrations" and faults["database"] else check()
    ready, worker = not any(faults.values()), NOT_KNOWN if faults["database"] else _worker()
    serving = ready and (worker is None or request.GET.get("worker") != "required")
    status = "ok" if ready and worker is None else "degraded" if ready else "unavailable"
    checks = {name: fault or "ok" for name, fault in {**faults, "worker": worker}.items()}
    response = JsonResponse({"status": status, "checks": checks}, status=200 if serving else 503)
    if not serving:
        response["Retry-After"] = "5"
    return response


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """For a Prometheus collector that knows METRICS_TOKEN; without one in the settings this address does not exist."""
    wanted = settings.METRICS_TOKEN
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not wanted or not compare_digest(given.encode(), wanted.encode()):
        raise Http404
    return HttpResponse(exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")
