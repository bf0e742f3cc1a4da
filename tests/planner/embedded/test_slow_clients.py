"""Clients that begin a request and never end it take no thread for longer than a request may take."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from planner.embedded.processes import start

pytestmark = pytest.mark.slow

HOST, THREADS, LIMIT = "127.0.0.1", 3, 2.0
APPLICATION = f"""
from planner import server
server.REQUEST_SECONDS, server.LOOK_SECONDS = {LIMIT}, 0.2
Worker = server.Worker
def application(environ, start_response):
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%d of %d" % (len(body), length)]
"""
HALF_A_HEADER = b"GET / HTTP/1.1\r\nHost: x\r\nX-"
HALF_A_BODY = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"
WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "slow_application.py").write_text(APPLICATION)
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        free = int(probe.getsockname()[1])
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-m", "gunicorn", "slow_application:application", "--bind", f"{HOST}:{free}"]
    command += ["--worker-class", "slow_application.Worker", "--threads", str(THREADS), "--no-control-socket"]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{tmp_path}"}
    child = start("web", command, log=tmp_path / "log", environment=environment, working_directory=tmp_path)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((HOST, free), timeout=1):
            break
        time.sleep(0.1)
    yield free
    child.stop(5)


def ask(port: int, sent: bytes, seconds: float = 30) -> bytes:
    """Everything that comes back."""
    with socket.create_connection((HOST, port), timeout=seconds) as client:
        client.sendall(sent)
        found = b""
        while chunk := client.recv(65536):
            found += chunk
    return found


@pytest.mark.parametrize("half", [HALF_A_HEADER, HALF_A_BODY])
def test_half_requests_hold_no_thread_for_ever(port: int, half: bytes) -> None:
    held = [socket.create_connection((HOST, port)) for _ in range(2 * THREADS)]
    for client in held:
        client.sendall(half)
    time.sleep(0.3)
    began = time.monotonic()
    assert ask(port, WHOLE).count(b"0 of 0") == 1
    assert time.monotonic() - began < 4 * LIMIT
    for client in held:
        client.close()


def test_what_comes_in_time_is_read_whole(port: int) -> None:
    with socket.create_connection((HOST, port), timeout=30) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n")
        for _ in range(10):
            client.sendall(b"x")
            time.sleep(LIMIT / 30)
        found = b""
        while chunk := client.recv(65536):
            found += chunk
    assert b"10 of 10" in found
    assert b"1 of 500" in ask(port, HALF_A_BODY), "what was sent is answered"
