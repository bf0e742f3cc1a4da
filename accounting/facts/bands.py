"""How far measured memory lies from the model's answer, by engine: the likely range around an estimate.

Each row is the 5th and 95th percentile of measured / predicted on the measured runs it names (the fit part only; the
report part judges it).
"""

from __future__ import annotations

from dataclasses import dataclass

from accounting.vocabulary import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    low: float
    high: float
    runs: int
    """Measured runs behind the row; 0 = none, the widest range."""


UNMEASURED = Band(low=0.85, high=1.15, runs=0)
BANDS: dict[tuple[Engine, bool], Band] = {}


def band_of(engine: Engine, *, adapter: bool) -> Band:
    """The likely range of an engine, with or without a frozen base under adapters."""
    return BANDS.get((engine, adapter), UNMEASURED)
