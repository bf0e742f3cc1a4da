"""Children: their end is noticed, explained and never outlived by them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.embedded.processes import Child, ServerError, start, wait_for_socket
from planner.embedded.valkey import start_scratch

ROOT = Path(__file__).resolve().parents[3]


def python(code: str, log: Path) -> Child:
    return start("example", [sys.executable, "-c", code], log=log, environment=os.environ)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_obituary_names_the_child_its_end_and_its_last_words(tmp_path: Path) -> None:
    child = python("import sys; sys.exit('no more memory')", tmp_path / "log")
    child.process.wait(10)
    assert not child.alive
    assert "example stopped (exit status 1)" in child.obituary()
    assert "no more memory" in child.obituary()


def test_obituary_names_the_signal(tmp_path: Path) -> None:
    child = python("import time; time.sleep(60)", tmp_path / "log")
    child.process.kill()
    child.process.wait(10)
    assert "signal SIGKILL" in child.obituary()


def test_stop_kills_what_does_not_listen(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    child = python(code, tmp_path / "log")
    while "deaf" not in child.log_tail():
        time.sleep(0.02)
    child.stop(seconds=0.2)
    assert child.process.returncode == -signal.SIGKILL


def test_waiting_ends_with_the_child(tmp_path: Path) -> None:
    child = python("import sys; sys.exit('cannot bind')", tmp_path / "log")
    with pytest.raises(ServerError, match="cannot bind"):
        wait_for_socket(child, tmp_path / "socket", seconds=10)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel ties children to parents on Linux only")
def test_killed_parent_takes_its_children_along(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib, time; from planner.embedded.processes import start\n"
        f"child = start('c', [sys.executable, '-c', 'import time; time.sleep(60)'],\n"
        f"    log=pathlib.Path({str(tmp_path / 'log')!r}), environment=os.environ)\n"
        "print(child.process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    deadline = time.monotonic() + 5
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(child)


def test_scratch_valkey_leaves_nothing_behind() -> None:
    server = start_scratch()
    folder = server.scratch[0]
    assert (folder / "socket").exists()
    server.stop()
    assert (folder.exists(), server.child.alive) == (False, False)
