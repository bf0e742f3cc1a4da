"""The very commands of docker-compose.yml as separate processes: setup, web, two workers and beat on PostgreSQL.

Only what a container would hide is replaced: the address that is listened on, and the names of two workers that
share one host here.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql

from planner.embedded.processes import Child, start
from planner.embedded.supervisor import HOST

ROOT = Path(__file__).resolve().parents[2]
FINAL = {"succeeded", "infeasible", "failed", "cancelled"}
PLAN = {
    "model": "llama-3-8b",
    "workload": {"tokens": 1_000_000_000, "sequence_length": 8192, "global_batch_tokens": 1_048_576},
    "hardware": {"accelerators": ["h100-sxm5-80gb"], "pricing": ["on-demand"], "max_count": 16},
}
TOKEN = (
    "from django.contrib.auth.models import User; from planner.teams.services import team_create, token_create;"
    "person = User.objects.create_user('ada'); team = team_create(slug='night', name='Night', admin=person);"
    "print(token_create(team=team, user=person, name='test')[1])"
)
pytestmark = [pytest.mark.slow, pytest.mark.postgresql]


def free_port() -> int:
    """Any free port: two test processes that both look from 8000 on would find the same one."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Installation:
    """The services of the compose file on this machine."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
        self.children: dict[str, Child] = {}
        kept = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ} | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PLANNER_NO_BOOTSTRAP": "1",
            "PLANNER_VAR": str(folder / "var"),
            "STATIC_ROOT": str(folder / "static"),
            "DATABASE_URL": database_url,
            "REDIS_URL": os.environ["REDIS_URL"],
            "REDIS_PREFIX": f"{os.environ['REDIS_PREFIX']}production:",
            "SECRET_KEY": secrets.token_urlsafe(50),
            "ALLOWED_HOSTS": HOST,
            "HTTPS_ONLY": "false",
        }

    def manage(self, *arguments: str) -> str:
        run = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout.strip()

    def command(self, service: str) -> list[str]:
        return [part.replace("0.0.0.0:8000", f"{HOST}:{self.port}") for part in self.services[service]["command"]]

    def setup(self) -> None:
        self.manage("collectstatic", "--noinput")
        run = subprocess.run(
            self.command("setup"), cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr

    def start(self, name: str, service: str, *extra: str) -> Child:
        command = [part.replace("/tmp/", f"{self.folder}/") for part in self.command(service)]
        log = self.folder / f"{name}.log"
        self.children[name] = start(
            name, [*command, *extra], log=log, environment=self.environment, working_directory=ROOT
        )
        return self.children[name]

    def healthy(self) -> bool:
        """The web container's own probe."""
        probe = [
            part.replace(f"{HOST}:8000", f"{HOST}:{self.port}") for part in self.services["web"]["healthcheck"]["test"]
        ]
        return subprocess.run(probe[1:], env=self.environment, capture_output=True, check=False).returncode == 0

    def call(self, method: str, path: str, token: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://{HOST}:{self.port}{path}", method=method, data=json.dumps(body).encode() if body else None
        )
        for name, value in {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def wait(self, what: str, condition: Any, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            dead = [child.obituary() for child in self.children.values() if not child.alive]
            assert not dead, "\n".join(dead)
            tails = "\n".join(f"--- {child.name}\n{child.log_tail()}" for child in self.children.values())
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s\n{tails}"
            time.sleep(0.1)

    def finish(self, plan: str, token: str) -> str:
        status = ""

        def ended() -> bool:
            nonlocal status
            status = self.call("GET", f"/api/v1/plans/{plan}/", token)[1]["status"]
            return status in FINAL

        self.wait(f"plan {plan}", ended)
        return status


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """A database of its own beside pytest-django's."""
    server = os.environ["DATABASE_URL"]
    name = f"planner_production_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        address, _, query = server.partition("?")
        yield address.rpartition("/")[0] + f"/{name}" + (f"?{query}" if query else "")
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Installation]:
    made = Installation(tmp_path_factory.mktemp("production"), database_url)
    try:
        made.setup()
        made.start("web", "web")
        made.start("one", "worker", "--hostname=one@%h")
        made.start("two", "worker", "--hostname=two@%h")
        made.start("beat", "beat")
        made.wait("the web server's health", made.healthy)
        yield made
    finally:
        for child in reversed(made.children.values()):
            child.stop()


def test_plans_run_on_several_workers_and_survive_the_loss_of_one(installation: Installation) -> None:
    token = installation.manage("shell", "--verbosity=0", "-c", TOKEN).splitlines()[-1]

    def submit(count: int) -> list[str]:
        answers = [installation.call("POST", "/api/v1/plans/", token, PLAN) for _ in range(count)]
        assert [status for status, _ in answers] == [202] * count
        return [answer["id"] for _, answer in answers]

    for worker in ("one", "two"):
        installation.wait(f"worker {worker}", lambda: " ready" in installation.children[worker].log_tail())  # noqa: B023
    plans = submit(12)
    assert {installation.finish(plan, token) for plan in plans} == {"succeeded"}
    ran = {name: "planner.plan_run" in installation.children[name].log.read_text() for name in ("one", "two")}
    assert ran == {"one": True, "two": True}

    lost = installation.children.pop("one")
    plans = submit(6)
    os.killpg(lost.process.pid, signal.SIGKILL)
    lost.process.wait()
    assert {installation.finish(plan, token) for plan in plans} == {"succeeded"}
    total = installation.call("GET", "/api/v1/plans/?page_size=100", token)[1]["results"]
    assert len({row["id"] for row in total}) == len(total) == 18


def test_a_stranger_is_refused_and_pages_have_their_files(installation: Installation) -> None:
    status, problem = installation.call("GET", "/api/v1/plans/", "plan_wrong")
    assert (status, problem["status"]) == (401, 401)
    with urllib.request.urlopen(f"http://{HOST}:{installation.port}/login/", timeout=10) as page:
        text, policy = page.read().decode(), page.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    styles = [part.split('"')[0] for part in text.split('href="') if part.startswith("/static/") and ".css" in part]
    assert styles
    for style in styles:
        with urllib.request.urlopen(f"http://{HOST}:{installation.port}{style}", timeout=10) as file:
            assert "immutable" in file.headers["Cache-Control"]
