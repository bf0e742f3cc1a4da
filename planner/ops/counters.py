"""The shared cache's server, asked directly: what is counted there must cost a request one round trip and no more."""

from __future__ import annotations

from functools import lru_cache

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

ANSWER_SECONDS = 1
"""A counter is worth no longer wait than this."""


def counters() -> redis.Redis:
    """The client of this process. Raises nothing; its commands raise redis.RedisError where the server is away."""
    return _client(settings.CACHES["default"]["LOCATION"])


@lru_cache(maxsize=4)
def _client(location: str) -> redis.Redis:
    return redis.Redis.from_url(
        location,
        socket_connect_timeout=ANSWER_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        # redis-py retries a refused connection for seconds by default.
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )


def count_up(name: str, *, keep_seconds: int) -> int:
    """One more of `name` among all processes: how many now. Kept for `keep_seconds` after the last one."""
    key = f"{settings.REDIS_PREFIX}{name}"
    with counters().pipeline(transaction=False) as pipe:
        pipe.incr(key)
        pipe.expire(key, keep_seconds)
        return int(pipe.execute()[0])
