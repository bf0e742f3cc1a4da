"""How far measured memory lies from the model's answer: the likely range around an estimate, by whose code runs it.

Each row is the 5th and, rounded up, the 96th percentile of measured / predicted on the measured runs it names (the fit
part only; the report part judges it): fewer than one run in twenty lies above. What has fewer than ten runs has no row.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    low: float
    high: float
    runs: int
    """Measured runs behind the row; 0 = none."""
    why: str = ""
    """What makes the range as wide as it is."""
    factor: float = 1.0
    """Median of measured / predicted, where it made runs it was not fitted on agree better; the ends count from the
    prediction before it."""


UNMEASURED = Band(low=0.85, high=1.15, runs=0, why="no measured run: the spread of those that are")
BANDS: dict[str, Band] = {
    "ddp": Band(low=0.93, high=1.16, runs=11),
    "ddp_adapter": Band(low=0.76, high=1.40, runs=46, why="trainers keep fp32 logits and score them; lengths vary"),
    "deepspeed": Band(low=0.95, high=1.30, runs=15, why="stage 3 gathers fragment the allocator"),
    "deepspeed_adapter": Band(low=0.93, high=1.08, runs=12),
    "fsdp1_adapter": Band(low=0.78, high=1.13, runs=23),
    "fsdp2": Band(
        low=0.86, high=1.36, runs=13, why="whether torch.compile takes the loss along, by torchtitan's version"
    ),
    "megatron": Band(low=0.94, high=1.08, runs=44),
    "megatron_fp16": Band(
        low=0.95, high=1.45, runs=13, why="DeepSpeed's fp16 optimizer under Megatron, driver readings of 2021"
    ),
    "modules": Band(low=0.92, high=1.15, runs=501),
    "modules_wide": Band(
        low=0.63, high=1.24, runs=103, why="tp from 16 on: collectives wait, or not, for their stream"
    ),
    "modules_pipeline": Band(
        low=0.92, high=1.39, runs=132, why="tp of 8 in a pipeline: as above, per micro-batch in flight"
    ),
    "modules_wide_pipeline": Band(low=0.97, high=1.73, runs=116, why="tp from 16 on in a pipeline: as above"),
}
WIDE_TENSOR_PARALLEL = 16
WIDEST_TENSOR_PARALLEL = 32
"""In a pipeline, tp from here on behaves again: nothing piles up behind collectives between nodes."""
PIPELINE_TENSOR_PARALLEL = 8


def band(name: str) -> Band:
    """The likely range of a row of `BANDS`, or the one for what was never measured."""
    return BANDS.get(name, UNMEASURED)
