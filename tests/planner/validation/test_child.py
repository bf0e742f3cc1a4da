"""The measuring process: its limits hold, nothing outlives it, no secret reaches it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.validation.child import ChildFailed, ChildStopped, Found, Limits, run_child, session_members
from tests.planner.validation import stand_ins

LIMITS: dict[str, Any] = {"seconds": 30, "memory_bytes": 8 << 30, "processes": 64}


def run(tmp_path: Path, script: str, alive: Callable[[float], bool] = lambda progress: True, **limits: Any) -> Found:
    python = stand_ins.interpreter(tmp_path, script)
    return run_child("shapes", [{}], python=python, limits=Limits(**{**LIMITS, **limits}), alive=alive)


def children() -> set[int]:
    """Processes of the stand-ins above, whoever their parent is."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"sleep(600)" in command or b"body.py" in command:
                found.add(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("script", "limits", "code"),
    [
        (stand_ins.SLEEP, {"seconds": 1}, "time_limit"),
        (stand_ins.FORKS, {"processes": 6}, "process_limit"),
        (stand_ins.HOARDS, {"memory_bytes": 200 << 20}, "memory_limit"),
        (stand_ins.DIES, {}, "process_lost"),
    ],
)
def test_limits_hold_and_nothing_is_left(tmp_path: Path, script: str, limits: dict[str, Any], code: str) -> None:
    before = children()
    with pytest.raises(ChildFailed) as caught:
        run(tmp_path, script, **limits)
    assert caught.value.code == code
    assert children() <= before


def test_what_the_process_started_ends_with_it(tmp_path: Path) -> None:
    before, seen = children(), set()

    def alive(progress: float) -> bool:
        seen.update(children() - before)
        return len(seen) < 2  # noqa: PLR2004 - the process and its own child

    with pytest.raises(ChildStopped):
        run(tmp_path, stand_ins.PARENT, alive)
    assert children() <= before


def test_progress_is_heard_and_a_lost_interest_ends_it(tmp_path: Path) -> None:
    heard: list[float] = []

    def alive(progress: float) -> bool:
        heard.append(progress)
        return progress < 0.5  # noqa: PLR2004 - what the script says

    with pytest.raises(ChildStopped):
        run(tmp_path, stand_ins.SLEEP, alive)
    assert heard[-1] == 0.5


def test_no_secret_and_no_address_of_ours_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    found = run(tmp_path, stand_ins.ENVIRONMENT)
    names = set(found.results[0]["names"])
    assert names.isdisjoint({"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "HF_TOKEN", "PYTHONPATH"})
    assert found.environment == {"torch": "9.9.9"}


@pytest.mark.parametrize("script", [stand_ins.BABBLES, stand_ins.TALKS])
def test_output_that_is_endless_or_no_event_ends_it(tmp_path: Path, script: str) -> None:
    before = children()
    with pytest.raises(ChildFailed) as caught:
        run(tmp_path, script)
    assert caught.value.code == "process_lost"
    assert children() <= before


def test_an_interpreter_without_the_extra_says_how_to_get_it() -> None:
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        pytest.skip("this interpreter has the extra")
    with pytest.raises(ChildFailed) as caught:
        run_child("shapes", [{}], python=sys.executable, limits=Limits(**LIMITS), alive=lambda progress: True)
    assert caught.value.code == "extra_missing"
    assert "pip install -r planner/validation/requirements.txt" in caught.value.detail


def test_an_interpreter_that_is_not_there_is_the_same() -> None:
    with pytest.raises(ChildFailed) as caught:
        run_child("cpu", [{}], python="/no/such/python", limits=Limits(**LIMITS), alive=lambda progress: True)
    assert caught.value.code == "extra_missing"


def test_a_measuring_process_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    """The very process that a worker starts, its limits and its tie to the parent included."""
    hold = tmp_path / "hold.py"
    hold.write_text(
        "import subprocess, sys, time\n"
        "inner = 'from planner.validation.measure.limits import end_with_parent, take_limits; import time; "
        "end_with_parent(); take_limits(data_bytes=1 << 30, seconds=60); print(1, flush=True); time.sleep(600)'\n"
        "child = subprocess.Popen([sys.executable, '-c', inner], start_new_session=True)\n"
        "print(child.pid, flush=True)\ntime.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, str(hold)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).resolve().parents[3]
    )
    assert parent.stdout is not None
    lines = [parent.stdout.readline(), parent.stdout.readline()]
    child = max(int(line) for line in lines)
    assert list(session_members(child)) == [child]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while list(session_members(child)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(session_members(child)) == []
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text()
