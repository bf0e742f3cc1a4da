"""One instance per directory, and a port that is really free."""

import socket
from pathlib import Path

import pytest

from planner.embedded.processes import ServerError
from planner.embedded.supervisor import DEFAULT_PORT, HOST, InstanceLock, choose_port


def test_second_instance_is_told_where_the_first_is(tmp_path: Path) -> None:
    first = InstanceLock(tmp_path)
    first.announce("http://127.0.0.1:8123")
    with pytest.raises(ServerError, match="already running .*8123"):
        InstanceLock(tmp_path)
    first.release()
    InstanceLock(tmp_path).release()


def test_port_in_use_is_an_error_when_asked_for() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ServerError, match=f"Port {port} is in use.*--port"):
            choose_port(port)


def test_without_a_wish_the_next_free_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr("planner.embedded.supervisor.DEFAULT_PORT", port)
        assert port < choose_port(None) < port + 20
    assert DEFAULT_PORT == 8000
