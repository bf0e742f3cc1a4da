"""Numbers measured elsewhere: plain JSON, a line of a training log, or the summary of a torch memory snapshot."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from planner.documents import MAX_TEXT
from planner.requests.fields import INVALID, Anything, Either, Faults, Member, Number, Record, Text, Whole

MOST_BYTES = 1 << 45
_BYTES = Whole(0, MOST_BYTES)
SNAPSHOT = Either(word=Text(MAX_TEXT), record=Anything())
_PHASES = Record({name: Member(_BYTES) for name in ("forward", "backward", "optimizer_step")})
MEASURED = Record(
    {
        "peak_allocated_bytes": Member(_BYTES, help="torch.cuda.max_memory_allocated"),
        "peak_reserved_bytes": Member(_BYTES, help="torch.cuda.max_memory_reserved"),
        "device_bytes": Member(_BYTES, help="the driver's: nvidia-smi"),
        "by_phase": Member(_PHASES),
        "step_seconds": Member(Number(0, 1e7, above=True)),
        "log_line": Member(Text(), help="a line of a training log"),
        "memory_snapshot": Member(SNAPSHOT, help="torch.cuda.memory_stats(), or the text of memory_summary()"),
        "environment": Member(Anything(), help="versions and device, as free members"),
    }
)
NUMBERS = ("peak_allocated_bytes", "peak_reserved_bytes", "device_bytes", "by_phase", "step_seconds")
UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_AMOUNT = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMG]i?B)"
_SECONDS = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s)?"


def _bytes(found: re.Match[str], *, binary: bool) -> int:
    unit = found["unit"].lower()
    # Torch's own tools and most trainers write GB for 2^30.
    if binary and not unit.endswith("ib"):
        unit = f"{unit[0]}ib"
    return round(float(found["number"]) * UNITS[unit])


LOG_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("peak_allocated_bytes", re.compile(rf"max[ _]?(?:mem(?:ory)?[ _]?)?allocated\D{{0,12}}{_AMOUNT}", re.I)),
    ("peak_reserved_bytes", re.compile(rf"max[ _]?(?:mem(?:ory)?[ _]?)?reserved\D{{0,12}}{_AMOUNT}", re.I)),
    # torchtitan: `memory: 47.61GiB(60.12%)` is the reserved peak.
    ("peak_reserved_bytes", re.compile(rf"\bmemory:\s*{_AMOUNT}\s*\(", re.I)),
    ("device_bytes", re.compile(rf"(?:device|nvidia-smi|gpu) mem(?:ory)?\D{{0,12}}{_AMOUNT}", re.I)),
    ("step_seconds", re.compile(r"elapsed time per iteration \((?P<unit>ms)\):\s*(?P<number>[\d.]+)", re.I)),
    ("step_seconds", re.compile(rf"(?:step|iteration|iter)[ _]?time\D{{0,6}}{_SECONDS}", re.I)),
)
"""Quantity and the words trainers put before it (Megatron-LM, torchtitan, Hugging Face callbacks)."""


def read_log_line(text: str) -> dict[str, Any]:
    """Quantities of a training log's line: bytes and seconds; what is not found is not there."""
    found: dict[str, Any] = {}
    for name, pattern in LOG_PATTERNS:
        match = pattern.search(text)
        if match is None or name in found:
            continue
        if name == "step_seconds":
            found[name] = float(match["number"]) * (0.001 if match["unit"] == "ms" else 1.0)
        else:
            found[name] = _bytes(match, binary=True)
    return found


STATISTICS = {
    "allocated_bytes.all.peak": "peak_allocated_bytes",
    "reserved_bytes.all.peak": "peak_reserved_bytes",
}
SUMMARY_ROWS = {"Allocated memory": "peak_allocated_bytes", "GPU reserved memory": "peak_reserved_bytes"}
_SUMMARY = re.compile(r"\|\s*(?P<row>[A-Za-z -]+?)\s*\|[^|]*\|\s*(?P<number>\d+)\s*(?P<unit>[KMGT]?i?B)\s*\|")


def read_snapshot(snapshot: object) -> dict[str, Any]:
    """Peaks of `torch.cuda.memory_stats()` (a dict) or of `memory_summary()` (its text, rounded to its own units)."""
    if isinstance(snapshot, Mapping):
        return {
            name: snapshot[key]
            for key, name in STATISTICS.items()
            if isinstance(snapshot.get(key), int) and not isinstance(snapshot[key], bool)
        }
    found: dict[str, Any] = {}
    for match in _SUMMARY.finditer(snapshot if isinstance(snapshot, str) else ""):
        name = SUMMARY_ROWS.get(match["row"])
        if name is not None and name not in found:
            found[name] = _bytes(match, binary=True)
    return found


READERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {"log_line": read_log_line, "memory_snapshot": read_snapshot}


def read_measured(given: object, faults: Faults) -> dict[str, Any] | None:
    """The numbers of an import, from whichever form they came in; faults are noted."""
    if given is None:
        faults.add("/measured", "required", f"an import gives at least one of {', '.join((*NUMBERS, *READERS))}")
        return None
    read = MEASURED.read(given, "/measured", faults)
    if read is INVALID:
        return None
    found: dict[str, Any] = {}
    for name, reader in READERS.items():
        if name in read:
            quantities = reader(read[name])
            if not quantities:
                detail = f"no number was recognised in {name}; give it as one of {', '.join(NUMBERS)}"
                faults.add(f"/measured/{name}", "not_recognised", detail)
            found |= quantities
    found |= {name: read[name] for name in NUMBERS if name in read}
    if not found and not faults.found:
        faults.add("/measured", "required", f"an import gives at least one of {', '.join((*NUMBERS, *READERS))}")
    if "by_phase" in found:
        found["by_phase"] = dict(found["by_phase"])
    environment = read.get("environment", {})
    if not isinstance(environment, Mapping):
        faults.add("/measured/environment", "wrong_type", "environment is an object of names and versions")
        environment = {}
    return {**found, "environment": {str(name): str(value)[:120] for name, value in list(environment.items())[:20]}}
