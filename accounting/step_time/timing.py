"""What the model of a step answers: named terms in seconds, parts, rates, traffic and a band."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from accounting.units import Bytes, Floats

PARTS: tuple[str, ...] = (
    "compute",
    "memory_bound",
    "exposed_communication",
    "pipeline_bubble",
    "optimizer",
    "offload",
)


@dataclass(frozen=True, slots=True)
class TimeRow:
    """One term of the step."""

    key: str
    part: str
    seconds: Floats
    """Of one step, (N, 1)."""
    law: Callable[..., object]
    """The function whose docstring says how it is computed and where that comes from."""

    @property
    def formula(self) -> str:
        """The docstring of the function behind the term."""
        return _text_of(self.law)


@cache
def _text_of(law: Callable[..., object]) -> str:
    return (law.__doc__ or "").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Every column is float64 of shape (N, 1); NaN where a machine fact or the architecture is unknown."""

    step_seconds: Floats
    parts: Mapping[str, Floats]
    """By PARTS; they sum to `step_seconds`."""
    lines: tuple[TimeRow, ...]
    """They sum to `step_seconds` too."""
    model_flops: Floats
    """FLOP of a step over all devices: forward and backward, products and full attention, no recomputation."""
    hardware_flops: Floats
    """The same with what is computed again."""
    mfu: Floats
    """model_flops / (count · dense peak of the recipe's compute dtype · step_seconds)."""
    hfu: Floats
    tokens_per_second: Floats
    tokens_per_second_per_device: Floats
    traffic_bytes: Mapping[str, Bytes]
    """Bytes each device sends in a step, by collective."""
    inter_bytes: Bytes
    """Of their sum, what leaves the node (or the rack of fast links)."""
    host_bytes: Bytes
    """Bytes each device moves to and from its host in a step."""
    band: tuple[Floats, Floats]
    """step_seconds times the calibration's 10th and 90th percentile of measured over predicted."""
    slowest_stage: Bytes
    warnings: Callable[[int], tuple[str, ...]]
    """What to say of one candidate's time."""


def unknown_timing(rows: int, reason: str) -> Timing:
    """All NaN: a model without an architecture has no time."""
    nothing = np.full((rows, 1), np.nan)
    return Timing(
        step_seconds=nothing,
        parts=dict.fromkeys(PARTS, nothing),
        lines=(),
        model_flops=nothing,
        hardware_flops=nothing,
        mfu=nothing,
        hfu=nothing,
        tokens_per_second=nothing,
        tokens_per_second_per_device=nothing,
        traffic_bytes={},
        inter_bytes=np.zeros((rows, 1), dtype=np.int64),
        host_bytes=np.zeros((rows, 1), dtype=np.int64),
        band=(nothing, nothing),
        slowest_stage=np.zeros((rows, 1), dtype=np.int64),
        warnings=lambda _: (reason,),
    )
