"""The embedded database prepares itself, once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.conf import settings

from planner.embedded.ready import ensure_ready, fingerprint

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = (
    "import django; django.setup()\n"
    "from planner.embedded.ready import ensure_ready\n"
    "print(ensure_ready(), ensure_ready())\n"
    "from hardware.models import Accelerator\n"
    "print(Accelerator.objects.count())\n"
)


def prepare(directory: Path) -> list[str]:
    dropped = {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ALLOWED_HOSTS"}
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {"PLANNER_VAR": str(directory), "DJANGO_SETTINGS_MODULE": "planner.settings"}
    command = [sys.executable, "-c", SCRIPT]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.slow
def test_first_use_migrates_and_loads_and_the_next_finds_it_done(tmp_path: Path) -> None:
    first, again, devices = prepare(tmp_path / "var")
    assert (first, again) == ("True", "False")
    assert int(devices) > 50
    assert prepare(tmp_path / "var")[:2] == ["False", "False"]


def test_production_database_is_never_touched() -> None:
    assert settings.EMBEDDED is False
    assert ensure_ready() is False


def test_looking_is_cheap_and_repeatable() -> None:
    begun = time.perf_counter()
    first = fingerprint()
    seconds = time.perf_counter() - begun
    assert first == fingerprint()
    assert seconds < 0.05 * 10  # 50 ms, with room for a busy machine
