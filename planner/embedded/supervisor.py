"""The processes of the embedded instance: broker, web server and worker, started, watched and stopped together."""

import fcntl
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from planner.embedded import valkey
from planner.embedded.instance import private_directory
from planner.embedded.processes import Child, Server, ServerError, start

HOST = "127.0.0.1"
DEFAULT_PORT = 8000
PORTS_TRIED = 20
POLL_SECONDS = 0.1


class InstanceLock:
    """One running instance per `var` directory; the holder's address stands in the file."""

    def __init__(self, directory: Path) -> None:
        private_directory(directory)
        self._descriptor = os.open(directory / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 200, 0).decode() or "address not yet known"
            os.close(self._descriptor)
            raise ServerError(f"This instance is already running ({holder}). Stop it first, or use it.") from None

    def announce(self, text: str) -> None:
        """Say where the instance can be reached."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def release(self) -> None:
        """Let the next instance start."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def choose_port(wanted: int | None) -> int:
    """`wanted` if it is free; without a wish the first free one from 8000 on."""
    for port in [wanted] if wanted else range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    if wanted:
        raise ServerError(f"Port {wanted} is in use by another program. Choose another with --port.")
    last = DEFAULT_PORT + PORTS_TRIED - 1
    raise ServerError(f"Ports {DEFAULT_PORT} to {last} are all in use. Choose a free one with --port.")


def web_command(port: int) -> list[str]:
    """gunicorn with threads: a request that waits for the database does not hold up the others."""
    bind, graceful = f"{HOST}:{port}", "5"
    options = [
        "--bind",
        bind,
        "--workers",
        "2",
        "--worker-class",
        "planner.server.Worker",
        "--threads",
        "8",
        "--preload",
    ]
    return [sys.executable, "-m", "gunicorn", "planner.wsgi", *options, "--graceful-timeout", graceful]


def worker_command(directory: Path) -> list[str]:
    """One Celery worker with the schedule inside: gossip and mingling are for fleets of workers."""
    schedule = ["--beat", "--schedule", os.fspath(directory / "beat-schedule")]
    options = [
        "--queues=default,validation",
        "--concurrency=2",
        "--without-gossip",
        "--without-mingle",
        "--loglevel=INFO",
    ]
    return [sys.executable, "-m", "celery", "--app=planner.celery", "worker", *options, *schedule]


class Supervisor:
    """Starts the children of one instance and ends them in reverse order."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self.children: list[Child] = []
        self.broker: Server | None = None

    def start_broker(self) -> None:
        """Valkey, unless REDIS_URL names a server that runs already."""
        if not os.environ.get("REDIS_URL"):
            self.broker = valkey.start_embedded(self.directory)
            self.children.append(self.broker.child)

    def start_services(self) -> None:
        """The web server and the worker, both at once: each takes seconds to import its code."""
        logs = private_directory(self.directory / "log")
        root = Path(settings.BASE_DIR)
        commands = {"web": web_command(self.port), "worker": worker_command(self.directory)}
        for name, command in commands.items():
            log = logs / f"{name}.log"
            log.unlink(missing_ok=True)
            child = start(name, command, log=log, environment=os.environ, working_directory=root)
            self.children.append(child)

    def check(self) -> None:
        """ServerError as soon as a child is gone: one missing part would leave plans waiting without a word."""
        for child in self.children:
            if not child.alive:
                raise ServerError(child.obituary())

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float, every: float = POLL_SECONDS) -> None:
        """Poll `condition` while watching the children."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                tails = "\n".join(f"--- {child.name}\n{child.log_tail()}" for child in self.children)
                raise ServerError(f"{what} did not happen within {seconds:g} s.\n{tails}")
            time.sleep(every)

    def stop(self) -> None:
        """End all children, the broker last, so that the worker can still hand back what it holds."""
        for child in reversed(self.children):
            if child.alive and child is not self._broker_child:
                child.process.send_signal(child.stop_signal)
        for child in reversed(self.children):
            child.stop()

    @property
    def _broker_child(self) -> Child | None:
        return self.broker.child if self.broker else None
