"""Which truth rows guard a number: files beside the tests whose every row a change of the formula must still meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accounting.facts.bands import BANDS
from accounting.facts.calibration import CALIBRATION


@dataclass(frozen=True)
class Guard:
    """Rows of one file: at least so many, what they are, where they lie."""

    rows: int
    what: str
    where: str


MODELS = Guard(161, "models counted, to the unit", "tests/accounting/model/data/models.csv")
SHARDED = Guard(912, "ranks of real engines, to the byte", "tests/truth/sharded.csv")
STATES = Guard(2143, "optimizers of real libraries, to the byte", "tests/accounting/optimizers/data/measured.csv")
SAVED = Guard(762, "steps with every saved tensor, to the byte", "tests/accounting/memory/data/saved_tensors.csv")
PEAKS = Guard(22, "peaks of sharded steps", "tests/accounting/memory/data/sharded_peaks.csv")
PUBLISHED = Guard(112, "figures that others published", "tests/truth/published.jsonl")
RUNS = Guard(sum(band.runs for band in BANDS.values()), "measured runs of whole cards", "accounting/facts/bands.py")
STEPS = Guard(
    sum(row.rows for row in CALIBRATION.devices.values()),
    "measured steps that the constants were fitted on",
    "accounting/facts/calibration_devices.py",
)

_TIME = (STEPS,)
GUARDS: Mapping[str, tuple[Guard, ...]] = {
    "parameters": (MODELS, SHARDED, PUBLISHED),
    "gradients": (SHARDED, PUBLISHED),
    "master_weights": (SHARDED, PUBLISHED),
    "optimizer_states": (STATES, SHARDED, PUBLISHED),
    "activations": (SAVED, PEAKS),
    "logits_and_loss": (SAVED, PEAKS),
    "communication_buffers": (PEAKS, RUNS),
    "temporaries": (PEAKS, RUNS),
    "framework": (RUNS,),
    "slack": (RUNS,),
    "context": (RUNS,),
    "allocated": (PEAKS, RUNS),
    "device": (RUNS,),
    "checkpoint-weights": (MODELS, PUBLISHED),
    "checkpoint-full": (STATES, PUBLISHED),
    "step": _TIME,
    "hours": _TIME,
    "throughput": _TIME,
    "mfu": _TIME,
}
"""Rows of each subject; a subject that is plain arithmetic on others has none of its own."""
