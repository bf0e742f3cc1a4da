"""Which PostgreSQL and which Valkey a test run uses: the ones named, else local ones, else the wheels.

Passwords are never guessed and a Redis database that holds anything is never touched.
"""

import os
from dataclasses import dataclass, field

import psycopg
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from planner.embedded import postgres, valkey
from planner.embedded.processes import Server, ServerError

OLDEST_POSTGRES = 140000
LOCAL_REDIS = "redis://127.0.0.1:6379/15"


@dataclass
class Services:
    """What a test run uses, how it was found, and what has to be stopped or emptied after it."""

    database_url: str | None
    redis_url: str
    origin: str
    servers: list[Server] = field(default_factory=list)
    flush: bool = False

    def close(self) -> None:
        """Stop what was started; empty the local Redis database, whose leftovers would bar the next run."""
        if self.flush:
            client(self.redis_url).flushdb()
        for server in self.servers:
            server.stop()


def client(url: str) -> "redis.Redis":
    """A client that answers at once: redis-py retries a refused connection for seconds by default."""
    return redis.Redis.from_url(url, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))


def local_postgres() -> str | None:
    """The server on 127.0.0.1:5432, if libpq's own settings open it and the role may create databases."""
    host, name = os.environ.get("PGHOST", "127.0.0.1"), os.environ.get("PGDATABASE", "postgres")
    try:
        with psycopg.connect(connect_timeout=1, host=host, dbname=name) as connection:
            row = connection.execute(
                "select rolcreatedb or rolsuper from pg_roles where rolname = current_user"
            ).fetchone()
            if connection.info.server_version < OLDEST_POSTGRES or not row or not row[0]:
                return None
            info = connection.info
            login = f"{info.user}:{info.password}" if info.password else info.user
            if info.host.startswith("/"):
                return f"postgresql://{login}@/{info.dbname}?host={info.host}&port={info.port}"
            return f"postgresql://{login}@{info.host}:{info.port}/{info.dbname}"
    except psycopg.Error:
        return None


def local_redis() -> str | None:
    """Database 15 of the server on 127.0.0.1:6379, if it is empty."""
    connection = client(LOCAL_REDIS)
    try:
        return LOCAL_REDIS if connection.dbsize() == 0 else None
    except redis.RedisError:
        return None
    finally:
        connection.close()


def _database(servers: list[Server]) -> tuple[str, str]:
    if url := os.environ.get("TEST_DATABASE_URL"):
        return url, "TEST_DATABASE_URL"
    if url := local_postgres():
        return url, "local server"
    servers.append(postgres.start_scratch())
    return servers[-1].url, "wheel"


def _redis(servers: list[Server]) -> tuple[str, str]:
    if url := os.environ.get("TEST_REDIS_URL"):
        return url, "TEST_REDIS_URL"
    if url := local_redis():
        return url, "local server"
    servers.append(valkey.start_scratch())
    return servers[-1].url, "wheel"


def find(*, database: bool = True) -> Services:
    """Choose and where needed start the services, the database only where asked for.

    Raises ServerError, which names the two variables, when one cannot be had.
    """
    servers: list[Server] = []
    try:
        database_url, database_origin = _database(servers) if database else (None, "SQLite")
        redis_url, redis_origin = _redis(servers)
    except ServerError as error:
        for server in servers:
            server.stop()
        raise ServerError(
            f"{error}\nThe tests need PostgreSQL and Valkey or Redis: set TEST_DATABASE_URL and TEST_REDIS_URL."
        ) from error
    origin = f"database: {database_origin}; Redis: {redis_origin}"
    return Services(database_url, redis_url, origin, servers, flush=redis_origin == "local server")
