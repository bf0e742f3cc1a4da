"""System checks of the deployment: settings that are each valid alone and wrong together."""

from ipaddress import ip_network
from typing import Any

import redis
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from redis.backoff import NoBackoff
from redis.retry import Retry

LEAST_LEASE_SECONDS = 2
LEAST_SECRET = 20


@register
def check_visibility_timeout(**_: Any) -> list[CheckMessage]:
    """A broker that re-delivers before a task's hard limit would run live tasks twice."""
    visibility = settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]
    if visibility > settings.CELERY_TASK_TIME_LIMIT:
        return []
    return [
        Error(
            f"The broker's visibility timeout ({visibility} s) is not above the task time limit "
            f"({settings.CELERY_TASK_TIME_LIMIT} s).",
            hint="Lower TASK_TIME_LIMIT_SECONDS or raise the visibility timeout.",
            id="planner.E001",
        )
    ]


@register(deploy=True)
def check_database_is_shared(**_: Any) -> list[CheckMessage]:
    """SQLite serves one machine only; workers elsewhere would each see their own empty database."""
    if settings.DATABASES["default"]["ENGINE"] != "django.db.backends.sqlite3":
        return []
    return [
        Warning(
            "The database is SQLite, which serves one machine only.",
            hint="Set DATABASE_URL to a PostgreSQL server before workers run on several machines.",
            id="planner.W001",
        )
    ]


@register
def check_lease(**_: Any) -> list[CheckMessage]:
    """A lease that is not well above the heartbeat would be taken over while its runner is alive."""
    if settings.PLAN_LEASE_SECONDS >= LEAST_LEASE_SECONDS:
        return []
    return [
        Error(
            f"PLAN_LEASE_SECONDS is {settings.PLAN_LEASE_SECONDS}; a runner reports every half second and may be held "
            "up by a busy database.",
            hint=f"Set it to {LEAST_LEASE_SECONDS} or more.",
            id="planner.E002",
        )
    ]


@register
def check_webhook_networks(**_: Any) -> list[CheckMessage]:
    """Networks that cannot be read, or that open everything: webhooks would then reach the host's own services."""
    found: list[CheckMessage] = []
    for text in settings.WEBHOOK_NETWORKS:
        try:
            network = ip_network(text)
        except ValueError as error:
            found.append(Error(f"WEBHOOK_NETWORKS: {error}", hint="Write 10.1.0.0/16.", id="planner.E003"))
            continue
        if network.prefixlen == 0:
            hint = "Name the networks your receivers are in."
            found.append(Warning(f"WEBHOOK_NETWORKS allows every address ({text}).", hint=hint, id="planner.W002"))
    return found


@register(deploy=True)
def check_metrics_token(**_: Any) -> list[CheckMessage]:
    """A short token can be guessed, and nothing slows the guessing down."""
    token = settings.METRICS_TOKEN
    if not token or len(token) >= LEAST_SECRET:
        return []
    hint = f"Use {LEAST_SECRET} or more random characters."
    return [Error("METRICS_TOKEN is short.", hint=hint, id="planner.E004")]


@register(deploy=True)
def check_debug_is_off(**_: Any) -> list[CheckMessage]:
    """Django only warns of it; with a production database it shows strangers settings and rows."""
    if not (settings.DEBUG and settings.DATABASE_URL):
        return []
    return [Error("DEBUG is on with a production database.", hint="Set DEBUG=false.", id="planner.E005")]


@register(deploy=True)
def check_broker_keeps_its_keys(**_: Any) -> list[CheckMessage]:
    """A broker that evicts keys when memory is short would throw away messages; the sweep then waits on every plan."""
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1, retry=Retry(NoBackoff(), 0)
    )
    try:
        policy = client.config_get("maxmemory-policy").get("maxmemory-policy", "noeviction")
    except redis.RedisError:
        return []  # away, or a service that does not tell: /readyz reports the first, nobody can check the second
    finally:
        client.close()
    if policy == "noeviction":
        return []
    hint = "Set maxmemory-policy noeviction, or give the cache a server of its own (CACHE_URL)."
    return [Error(f"The broker evicts keys (maxmemory-policy {policy}).", hint=hint, id="planner.E006")]
