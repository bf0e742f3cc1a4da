"""One POST to one checked address: no redirects, no proxies, bounded in time and in what is read."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress

from planner.webhooks.addresses import Target, check_url, resolve

CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
"""Each read has a limit of its own, so a peer that sends a byte now and then needs one for the whole."""


class _Connection(http.client.HTTPConnection):
    """Connects to the address it is given, and speaks (and verifies) the name of the URL."""

    def __init__(self, target: Target, address: str) -> None:
        super().__init__(target.host, target.port, timeout=CONNECT_SECONDS)
        self._target, self._address = target, address

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self._target.port), timeout=CONNECT_SECONDS)
        self.sock = plain
        if self._target.scheme == "https":
            # The handshake comes after the socket is here: a peer that drips it byte by byte is cut off as well.
            self.sock = secured = ssl.create_default_context().wrap_socket(
                plain, server_hostname=self._target.host, do_handshake_on_connect=False
            )
            secured.do_handshake()


def post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """The HTTP status of the answer, whose body is not read.

    Raises RefusedAddress where the URL leads to an address that is not allowed, OSError or HTTPException otherwise.
    """
    target = check_url(url)
    connection = _Connection(target, resolve(target)[0])
    stop = threading.Timer(TOTAL_SECONDS, _cut, args=(connection,))
    stop.daemon = True
    stop.start()
    try:
        connection.request("POST", target.path, body=body, headers=dict(headers))
        with connection.getresponse() as response:
            return response.status
    finally:
        stop.cancel()
        connection.close()


def _cut(connection: _Connection) -> None:
    if connection.sock is not None:
        with suppress(OSError):  # the peer was quicker
            connection.sock.shutdown(socket.SHUT_RDWR)
