"""Child processes that never outlive their parent, and servers reached through a unix socket. Standard library only."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
START_SECONDS = 30.0
STOP_SECONDS = 15.0
LOG_TAIL_BYTES = 4000


class ServerError(RuntimeError):
    """A server or child process did not start or did not stay alive; the text says which and shows its log."""


# Loaded here: between fork and exec of a child nothing may be imported.
_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Child:
    """One running process, its log and the way to end it."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def log_tail(self) -> str:
        """The last lines it wrote."""
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()

    def obituary(self) -> str:
        """Which process ended, how, and its last words."""
        code = self.process.poll()
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit status {code}"
        return f"{self.name} stopped ({how}). End of its log ({self.log}):\n{self.log_tail()}"

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ask it to end, wait, then kill what is left."""
        if self.alive:
            self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # What it started itself and left behind shares its session.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


def start(  # noqa: PLR0913 - what a process needs, each by name
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str],
    working_directory: Path | None = None,
    user: Mapping[str, Any] | None = None,
) -> Child:
    """Start `command` in its own session, so that a Ctrl-C reaches the parent alone and children end in order."""
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [os.fspath(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=working_directory,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - single-threaded callers; nothing else ties a child to us
            **(user or {}),
        )
    return Child(name, process, log)


def wait_for_socket(child: Child, path: Path, seconds: float = START_SECONDS) -> None:
    """Return once something accepts connections at `path`; ServerError when the child dies or time runs out."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(os.fspath(path))
                return
            except OSError:
                pass
        if not child.alive:
            raise ServerError(child.obituary())
        time.sleep(0.02)
    child.process.kill()
    raise ServerError(f"{child.name} did not answer within {seconds:g} s. End of its log:\n{child.log_tail()}")


@dataclass
class Server:
    """A running server with its address, and the folders to remove when it stops."""

    url: str
    child: Child
    scratch: list[Path] = field(default_factory=list)

    def stop(self) -> None:
        """End the process and remove its throw-away folders."""
        self.child.stop()
        for folder in self.scratch:
            shutil.rmtree(folder, ignore_errors=True)
