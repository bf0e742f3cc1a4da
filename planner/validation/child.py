"""One measuring process: started apart, watched, ended with everything it started.

Celery's pool processes are daemonic and may not use multiprocessing; a plain subprocess in a session of its own may do
what it likes there, gets no secret of ours, and is killed as a whole.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.2
MOST_OUTPUT = 8 << 20
TAIL = 2_000
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME")
"""Of our own environment; keys and addresses of servers stay here."""
OWN = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "GLOO_SOCKET_IFNAME": "lo",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TORCH_COMPILE_DISABLE": "1",
}
EXTRA_MISSING = (
    "this worker's VALIDATION_PYTHON ({python}) lacks the extra: {detail}. Install it with "
    "`{python} -m pip install -r planner/validation/requirements.txt`, "
    "or set VALIDATION_PYTHON to an interpreter that has it"
)


class ChildFailed(Exception):
    """The process gave no result; `code` and text say why."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class ChildStopped(Exception):
    """Whoever asked no longer wants the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    seconds: float
    memory_bytes: int
    """Resident bytes of the process and all it started."""
    processes: int
    """Including threads' hosts only: processes, not threads."""
    kernel: bool = True
    """Also ask the kernel to refuse private memory beyond it; not where CUDA maps its address space."""


@dataclass(slots=True)
class Found:
    results: list[dict[str, Any]]
    environment: dict[str, Any]


def run_child(
    kind: str, jobs: list[dict[str, Any]], *, python: str, limits: Limits, alive: Callable[[float], bool]
) -> Found:
    """Measure `jobs` in a process of their own. `alive` hears the progress (0 to 1) and says whether to go on.

    Raises ChildFailed or ChildStopped; either way nothing is left running.
    """
    order = {
        "kind": kind,
        "jobs": jobs,
        "limits": {"data_bytes": limits.memory_bytes if limits.kernel else None, "seconds": int(limits.seconds) + 60},
    }
    process = _started(python)
    lines: queue.Queue[bytes | None] = queue.Queue()
    tail: list[bytes] = []
    readers = (
        threading.Thread(target=_read, args=(process.stdout, lines.put), daemon=True),
        threading.Thread(target=_keep_tail, args=(process.stderr, tail), daemon=True),
    )
    for reader in readers:
        reader.start()
    try:
        _send(process, order)
        return _gathered(process, lines, len(jobs), Watch(process.pid, limits, alive), tail, python)
    finally:
        end_session(process.pid)
        process.wait()
        for reader in readers:
            reader.join(5)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _started(python: str) -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    try:
        return subprocess.Popen(
            [python, "-m", "planner.validation.measure"],
            cwd=ROOT,
            env={**environment, **OWN},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as fault:
        raise ChildFailed("extra_missing", EXTRA_MISSING.format(python=python, detail=fault.strerror)) from None


def _send(process: subprocess.Popen[bytes], order: dict[str, Any]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
    except BrokenPipeError:
        pass  # it ended at once; what it said on the way is read below


def _read(stream: Any, put: Callable[[bytes | None], None]) -> None:
    read = 0
    for line in stream:
        read += len(line)
        if read > MOST_OUTPUT:
            break
        put(line)
    put(None)


def _keep_tail(stream: Any, tail: list[bytes]) -> None:
    for line in stream:
        tail.append(line[:TAIL])
        del tail[:-20]


def _gathered(
    process: subprocess.Popen[bytes],
    lines: queue.Queue[bytes | None],
    wanted: int,
    watch: Watch,
    tail: list[bytes],
    python: str,
) -> Found:
    found = Found([], {})
    while len(found.results) < wanted:
        watch.look()
        try:
            line = lines.get(timeout=POLL_SECONDS)
        except queue.Empty:
            continue
        if line is None:
            end_session(process.pid)  # it may only have said too much
            raise _ended(process.wait(), b"".join(tail).decode(errors="replace")[-TAIL:])
        event = _event(line)
        watch.progress = event.get("progress", watch.progress)
        found.environment |= event.get("environment", {})
        if "error" in event:
            fault = event["error"]
            raise ChildFailed(fault["code"], EXTRA_MISSING.format(python=python, detail=fault["detail"]))
        if "result" in event:
            found.results.append(event["result"])
    return found


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise ChildFailed("process_lost", f"the measuring process said what is no event: {line[:80]!r}")
    return event


def _ended(code: int, tail: str) -> ChildFailed:
    if code == -signal.SIGXCPU:
        return ChildFailed("time_limit", "the measuring process used up its processor time")
    if "MemoryError" in tail or "can't allocate memory" in tail or "Cannot allocate memory" in tail:
        return ChildFailed("memory_limit", "the measuring process reached its memory limit")
    how = f"by signal {-code}" if code < 0 else f"with status {code}"
    last = tail.strip().rsplit("\n", 1)[-1][:300]
    return ChildFailed("process_lost", f"the measuring process ended {how} before its result: {last}")


class Watch:
    """Looks at a session between its lines: time, memory, number of processes, and whether anybody still waits."""

    def __init__(self, session: int, limits: Limits, alive: Callable[[float], bool]) -> None:
        self.session, self.limits, self.alive = session, limits, alive
        self.deadline = time.monotonic() + limits.seconds
        self.progress = 0.0

    def look(self) -> None:
        if not self.alive(self.progress):
            raise ChildStopped
        if time.monotonic() > self.deadline:
            raise ChildFailed("time_limit", f"the measurement took longer than {self.limits.seconds:,.0f} s")
        held = list(session_members(self.session))
        if len(held) > self.limits.processes:
            raise ChildFailed("process_limit", f"the measurement started more than {self.limits.processes} processes")
        resident = sum(resident_bytes(pid) for pid in held)
        if resident > self.limits.memory_bytes:
            limit = self.limits.memory_bytes / 2**30
            raise ChildFailed("memory_limit", f"the measurement held more than {limit:.1f} GiB of host memory")


def session_members(session: int) -> Iterator[int]:
    """Processes of a session, from /proc; the leader alone where there is none."""
    if not Path("/proc").is_dir():
        yield session
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The command may hold spaces and brackets: what follows the last bracket is fixed.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                yield int(entry.name)


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def end_session(session: int) -> None:
    """SIGKILL to every process of a session, until none is left."""
    for _ in range(50):
        members = list(session_members(session))
        if not members:
            return
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
