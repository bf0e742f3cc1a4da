"""Interpreters that are none: scripts in the place of VALIDATION_PYTHON, to test what surrounds a measurement."""

from __future__ import annotations

import sys
from pathlib import Path

ANSWER = """
import json, sys
order = json.load(sys.stdin)
print(json.dumps({"environment": {"torch": "9.9.9"}}), flush=True)
"""
SLEEP = ANSWER + "import time\nprint(json.dumps({'progress': 0.5}), flush=True)\ntime.sleep(600)\n"
FORKS = ANSWER + "import os, time\nfor _ in range(12):\n    os.fork() or time.sleep(600)\ntime.sleep(600)\n"
HOARDS = ANSWER + "import time\nheld = b'x' * (300 << 20)\ntime.sleep(600)\n"
DIES = ANSWER + "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
BABBLES = ANSWER + "while True: print('{}' + ' ' * 100000)\n"
TALKS = ANSWER + "print('Hello')\n"
ENVIRONMENT = ANSWER + "import os\nprint(json.dumps({'result': {'names': sorted(os.environ)}}), flush=True)\n"
PARENT = ANSWER + (
    "import os, subprocess\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "import time\ntime.sleep(600)\n"
)


def interpreter(folder: Path, script: str) -> str:
    """A file that runs `script` whatever module it is asked for."""
    body, found = folder / "body.py", folder / "python"
    body.write_text(script)
    found.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{body}"\n')
    found.chmod(0o755)
    return str(found)


HOLDS = (
    """
import os, sys
sys.path.insert(0, os.getcwd())
from planner.validation.measure.limits import end_with_parent
end_with_parent()
"""
    + SLEEP
)
"""Tied to its parent as a real measurement is."""
COUNTS = ANSWER + (
    "print(json.dumps({'result': {'parameters': 1, 'trainable_parameters': 1, 'tensors': 1, 'shapes': [[[1], 1]]}}))\n"
)
DEVICE = ANSWER + (
    "phase = {'forward': 3, 'backward': 5, 'optimizer_step': 4}\n"
    "for job in order['jobs']:\n"
    "    print(json.dumps({'result': {'by_phase': phase, 'peak_allocated_bytes': 5, 'peak_reserved_bytes': 6, "
    "'device_bytes': 7, 'step_seconds': 0.5, 'fits': True, 'environment': {'device': 'double'}}}), flush=True)\n"
)
"""What a device run answers, without a device."""
