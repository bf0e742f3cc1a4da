"""Starting a worker: its own process, because it changes what torch and transformers see of the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def measured(
    worker: str, cases: Sequence[Mapping[str, Any]], timeout_seconds: float | None = None
) -> list[dict[str, Any]]:
    """What a worker answers for every case, in order. Raises AssertionError with its last words where it dies."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run(
        [sys.executable, "-m", f"tests.reallib.activations.{worker}"],
        input=lines,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=timeout_seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
