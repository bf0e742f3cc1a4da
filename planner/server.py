"""gunicorn's threads, each with a limit on how long a client may take to send its request and to read the answer.

gunicorn waits for ever for the rest of a request that has begun: as many clients as there are threads, gone in
mid-request without a goodbye, would be the end of the service. A request that was read in time is not touched.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any

from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

REQUEST_SECONDS = 15.0
"""From the first byte of a request to its last: 10 MiB, the largest that is read, at 6 Mbit/s."""
WHOLE_SECONDS = 600.0
"""To the last byte of the answer: above the longest `Prefer: wait`."""
LOOK_SECONDS = 1.0


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """`--worker-class planner.server.Worker`."""

    def init_process(self) -> None:
        """In the process itself, after the fork."""
        self._begun: dict[Any, float] = {}
        threading.Thread(target=self._watch, name="slow-clients", daemon=True).start()
        super().init_process()

    def handle(self, conn: Any) -> Any:
        """One request of a connection, in one of the threads."""
        self._begun[conn] = time.monotonic()
        try:
            return super().handle(conn)
        finally:
            self._begun.pop(conn, None)

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            now = time.monotonic()
            for conn, begun in self._begun.copy().items():
                if now - begun > REQUEST_SECONDS:
                    # What was sent so far is all there is: it is answered, and nothing further is waited for.
                    with suppress(OSError):
                        conn.sock.shutdown(socket.SHUT_RDWR if now - begun > WHOLE_SECONDS else socket.SHUT_RD)
