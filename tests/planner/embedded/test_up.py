"""`manage.py up` as a person meets it: the whole service, a child that dies, an end that leaves nothing behind."""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.embedded.supervisor import HOST

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 300

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")]


def free_port() -> int:
    """Any free port: two test processes that both look from 8000 on would find the same one."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Up:
    """One running `up` and what it printed so far."""

    def __init__(self, directory: Path) -> None:
        dropped = {
            "DATABASE_URL",
            "REDIS_URL",
            "SECRET_KEY",
            "ALLOWED_HOSTS",
            "REDIS_PREFIX",
            "STATIC_FILES",
            "DB_POOL",
        }
        environment = {name: value for name, value in os.environ.items() if name not in dropped}
        environment |= {"PLANNER_VAR": str(directory), "PLANNER_NO_BOOTSTRAP": "1"}
        self.output = directory.parent / f"up-{time.monotonic_ns()}.txt"
        with self.output.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", str(free_port())],
                cwd=ROOT,
                env=environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    def text(self) -> str:
        return self.output.read_text()

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + SECONDS
        while words not in self.text():
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.1)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


def processes_of(directory: Path, words: str = "") -> list[int]:
    """Living processes that were started for the instance in `directory`, `words` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or f"PLANNER_VAR={directory}".encode() not in (entry / "environ").read_bytes():
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if words in command and command:
            found.append(int(entry.name))
    return sorted(found)


def stored_plans(directory: Path) -> int:
    with sqlite3.connect(directory / "planner.sqlite3") as connection:
        return int(connection.execute("select count(*) from planner_planrun").fetchone()[0])


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "var"
    for process in processes_of(tmp_path / "var"):
        os.kill(process, signal.SIGKILL)


def test_up_plans_serves_explains_a_death_and_loses_nothing(directory: Path) -> None:
    first = Up(directory)
    first.wait_for("Dashboard: ")
    assert len(re.findall(r"API token of team home: plan_\w+ \(shown once", first.text())) == 1
    assert "USD" in first.text()
    key = (directory / "api-key").read_text()
    assert (directory / "api-key").stat().st_mode & 0o077 == 0

    for worker in processes_of(directory, "celery"):
        os.kill(worker, signal.SIGKILL)
    assert first.process.wait(60) == 1
    assert "worker stopped (signal SIGKILL)" in first.text()
    assert processes_of(directory) == []

    second = Up(directory)
    second.wait_for("serving at ")
    assert "already running" in refused(directory)
    second.wait_for("planning ")
    assert second.end(signal.SIGTERM) == 130
    assert "API token" not in second.text()
    assert (directory / "api-key").read_text() == key
    assert (processes_of(directory), stored_plans(directory)) == ([], 2)

    third = Up(directory)
    third.wait_for("serving at ")
    third.process.kill()
    third.process.wait()
    deadline = time.monotonic() + 30
    while processes_of(directory) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(directory) == []


def refused(directory: Path) -> str:
    another = Up(directory)
    assert another.process.wait(60) == 1
    return another.text()
