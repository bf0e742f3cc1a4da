"""Two probes: `/healthz` says that this process answers, `/readyz` says whether the services it needs do."""

from collections.abc import Callable

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.backoff import NoBackoff
from redis.retry import Retry


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """200 as long as the process runs; touches nothing else."""
    return JsonResponse({"status": "ok"})


def _database() -> str | None:
    try:
        executor = MigrationExecutor(connection)
    except DatabaseError:
        return "The database does not answer."
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


CHECKS: dict[str, Callable[[], str | None]] = {"database": _database, "broker": _broker}


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when every needed service answers, else 503 with what is wrong with each."""
    faults = {name: check() for name, check in CHECKS.items()}
    ready = not any(faults.values())
    checks = {name: fault or "ok" for name, fault in faults.items()}
    body = {"status": "ok" if ready else "unavailable", "checks": checks}
    response = JsonResponse(body, status=200 if ready else 503)
    if not ready:
        response["Retry-After"] = "5"
    return response
