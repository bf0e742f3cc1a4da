"""A measuring process: a work order on standard input, events as JSON lines on standard output.

Started by `planner.validation.child` with the interpreter that has torch; nothing else in the project imports torch.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import traceback
from typing import Any

from planner.validation.measure.limits import end_with_parent, take_limits

MODULES = {
    "shapes": "shapes",
    "cpu": "states",
    "dry-run": "dry",
    "gpu": "gpu",
    "convergence": "convergence",
}
PACKAGES = ("torch", "transformers", "bitsandbytes", "torchao", "deepspeed", "numpy")


def main() -> None:
    order = json.loads(sys.stdin.buffer.read())
    # What libraries print must not mix with the events.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    end_with_parent()
    take_limits(**order["limits"])

    def say(**event: Any) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    try:
        module = importlib.import_module(f"planner.validation.measure.{MODULES[order['kind']]}")
    except ImportError as fault:
        say(error={"code": "extra_missing", "detail": str(fault)})
        return
    say(environment=environment())
    for number, job in enumerate(order["jobs"]):
        say(result=outcome(module, {**job, "progress": say}), number=number)


def outcome(module: Any, job: dict[str, Any]) -> dict[str, Any]:
    """What one job came to: its numbers, or why there are none."""
    models = importlib.import_module("planner.validation.measure.models")
    try:
        measured: dict[str, Any] = module.measure(job)
    except models.Refused as fault:
        return {"error": {"code": "refused_by_library", "detail": str(fault)}}
    except MemoryError:
        return {"error": {"code": "memory_limit", "detail": "the process reached its memory limit"}}
    except Exception as fault:  # noqa: BLE001 - a library's own; the reader is told which and where
        traceback.print_exc()
        where = traceback.extract_tb(fault.__traceback__)[-1]
        text = f"{type(fault).__name__}: {fault} ({where.name}, {os.path.basename(where.filename)}:{where.lineno})"  # noqa: PTH119
        return {"error": {"code": "library_fault", "detail": text[:900]}}
    return measured


def environment() -> dict[str, Any]:
    """Versions and device that a measurement belongs to."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - costs every other start nothing

    found: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


if __name__ == "__main__":
    main()
