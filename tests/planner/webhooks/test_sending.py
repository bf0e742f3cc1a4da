"""A peer that does its worst: it drips, floods, goes on for ever, or hangs up. The try ends in its time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from typing import Any

import pytest

from planner.webhooks import sending

TOTAL = 0.6
PATIENCE = 6.0
"""Of the peer: without a limit of its own a try would last as long."""

Peer = Callable[[socket.socket], None]


def drips_a_handshake(peer: socket.socket) -> None:
    """A TLS record of 16 KiB that is announced and then comes byte by byte."""
    peer.sendall(b"\x16\x03\x03\x40\x00")
    for _ in range(int(PATIENCE / 0.05)):
        peer.sendall(b"\x02")
        time.sleep(0.05)


def drips_headers(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(int(PATIENCE / 0.05)):
        peer.sendall(b"x")
        time.sleep(0.05)


def says_continue_for_ever(peer: socket.socket) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def floods_headers(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        peer.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))


def floods_one_line(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(1000):
        peer.sendall(b"x" * 65536)


def floods_a_body(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    for _ in range(1000):
        peer.sendall(b"x" * 65536)


def says_nothing(peer: socket.socket) -> None:
    time.sleep(PATIENCE)


def hangs_up(peer: socket.socket) -> None:
    peer.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def serve(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Peer, str], str]]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    monkeypatch.setattr(sending, "TOTAL_SECONDS", TOTAL)
    listeners: list[socket.socket] = []

    def start(act: Peer, scheme: str) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def once() -> None:
            with suppress(OSError), listener.accept()[0] as peer:
                peer.recv(65536)
                act(peer)

        threading.Thread(target=once, daemon=True).start()
        return f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/"

    yield start
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    ("scheme", "act"),
    [
        ("https", drips_a_handshake), ("https", says_nothing), ("https", hangs_up),
        ("http", says_continue_for_ever), ("http", floods_headers),
        ("http", floods_one_line), ("http", says_nothing), ("http", hangs_up),
    ],
)  # fmt: skip
def test_a_try_ends_in_its_time(serve: Callable[[Peer, str], str], scheme: str, act: Peer) -> None:
    began = time.monotonic()
    with pytest.raises((OSError, HTTPException)):
        sending.post(serve(act, scheme), b"{}", {})
    assert time.monotonic() - began < PATIENCE / 2


def test_headers_without_an_end_are_cut_off_and_the_status_they_began_with_counts(
    serve: Callable[[Peer, str], str],
) -> None:
    began = time.monotonic()
    assert sending.post(serve(drips_headers, "http"), b"{}", {}) == 200
    assert time.monotonic() - began < PATIENCE / 2


def test_no_body_is_read(serve: Callable[[Peer, str], str]) -> None:
    began = time.monotonic()
    assert sending.post(serve(floods_a_body, "http"), b"{}", {}) == 200
    assert time.monotonic() - began < TOTAL
