"""A whole installation of separate processes on real servers, whose every part can be killed and started again."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from planner.embedded import postgres, valkey
from planner.embedded.processes import Child, Server, start, wait_for_socket
from planner.embedded.supervisor import HOST, web_command, worker_command

ROOT = Path(__file__).resolve().parents[2]
TOKEN = (
    "from django.contrib.auth.models import User; from planner.teams.services import team_create, token_create;"
    "person = User.objects.create_user('ada'); team = team_create(slug='night', name='Night', admin=person);"
    "print(token_create(team=team, user=person, name='test', scope='admin')[1])"
)
LEASE_SECONDS = 5
START_SECONDS = 90


class Installation:
    """`kind` is postgresql (web, workers and beat apart) or sqlite (web, and one worker with the schedule inside)."""

    def __init__(self, kind: str, folder: Path, workers: int = 2) -> None:
        self.kind, self.folder = kind, folder
        self.children: dict[str, Child] = {}
        self.database: Server | None = None
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port = int(probe.getsockname()[1])
        self.address = f"http://{HOST}:{self.port}"
        self.broker = valkey.start_embedded(folder)
        kept = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ} | {
            "PLANNER_NO_BOOTSTRAP": "1",
            "PLANNER_VAR": str(folder),
            "SECRET_KEY": secrets.token_urlsafe(50),
            "ALLOWED_HOSTS": HOST,
            "HTTPS_ONLY": "false",
            "STATIC_FILES": "finders",
            "PLAN_LEASE_SECONDS": str(LEASE_SECONDS),
            "API_REQUESTS_PER_MINUTE": "10000000",
            "LOG_LEVEL": "warning",
            "REDIS_URL": self.broker.url,
        }
        if kind == "postgresql":
            self.database = postgres.start_scratch()
            self._durable()
            self.environment["DATABASE_URL"] = self.database.url
        self.manage("migrate", "--noinput", "--verbosity=0")
        self.manage("load_catalog", "--verbosity=0")
        self.token = self.manage("shell", "--verbosity=0", "-c", TOKEN).splitlines()[-1]
        self.workers = [f"worker{number}" for number in range(workers if kind == "postgresql" else 1)]
        for name in ("web", *self.workers, *(["beat"] if kind == "postgresql" else [])):
            self.launch(name)
        self.wait("the service is ready", self.ready)

    def manage(self, *arguments: str) -> str:
        run = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout.strip()

    def _command(self, name: str) -> list[str]:
        if name == "web":
            return web_command(self.port)
        if self.kind == "sqlite":
            return worker_command(self.folder)
        celery = [sys.executable, "-m", "celery", "--app=planner.celery"]
        if name == "beat":
            return [*celery, "beat", f"--schedule={self.folder}/beat-schedule", "--pidfile="]
        return [*celery, "worker", "--queues=default", "--concurrency=2", f"--hostname={name}@%h"]

    def launch(self, name: str) -> None:
        """Start a part, or start it again."""
        self.children[name] = start(
            name, self._command(name), log=self.folder / f"{name}.log",
            environment=self.environment, working_directory=ROOT,
        )  # fmt: skip

    def ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.address}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            tails = "\n".join(f"--- {child.name}\n{child.log_tail()}" for child in self.children.values())
            assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s\n{tails}"
            time.sleep(0.1)

    def kill_worker(self, name: str, *, parent: bool) -> None:
        """SIGKILL the worker itself, or one of the processes it runs plans in, as an out-of-memory killer would."""
        child = self.children[name]
        if parent:
            with suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()
            self.launch(name)
            return
        listed = Path(f"/proc/{child.process.pid}/task/{child.process.pid}/children")
        with suppress(OSError, ProcessLookupError, IndexError):
            os.kill(int(secrets.choice(listed.read_text().split())), signal.SIGKILL)

    def supervise(self) -> None:
        """What a service manager does: start again what ended by itself."""
        for name, child in list(self.children.items()):
            if not child.alive:
                self.launch(name)

    def restart_broker(self) -> None:
        self.broker.child.process.kill()
        self.broker.child.process.wait()
        self.broker = valkey.start_embedded(self.folder)

    def restart_database(self) -> None:
        """As `pg_ctl restart -m immediate`: no goodbye to anybody, recovery at the next start."""
        assert self.database is not None, "SQLite is a file: there is nothing to restart"
        child = self.database.child
        child.process.send_signal(signal.SIGQUIT)
        child.process.wait()
        self._start_database(child)

    def _durable(self) -> None:
        """The scratch server trades the last commits for speed; here they are what is tested."""
        assert self.database is not None
        child = self.database.child
        child.stop()
        self._start_database(child)

    def _start_database(self, child: Child) -> None:
        assert self.database is not None
        scratch = self.database.scratch[0]
        owner = (scratch / "data").stat()
        user = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        assert isinstance(child.process.args, list)
        arguments = [
            str(part).replace("synchronous_commit=off", "synchronous_commit=on") for part in child.process.args
        ]
        self.database.child = start(
            "postgres", arguments, log=scratch / "log", environment=postgres.ENVIRONMENT,
            working_directory=Path("/"), user=user,
        )  # fmt: skip
        self.database.child.stop_signal = signal.SIGINT
        wait_for_socket(self.database.child, scratch / ".s.PGSQL.5432")

    def close(self) -> None:
        for child in reversed(self.children.values()):
            child.stop(5)
        self.broker.stop()
        if self.database is not None:
            self.database.stop()
