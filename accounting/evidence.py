"""What a likely range rests on: the measured runs behind it, and how far the nearest of them lies from a candidate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from accounting.facts.bands import Band, band


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What sets the memory of a measured configuration, as far as a distance needs it."""

    parameters: int
    devices: int
    tokens: int
    """Of one micro-batch."""
    runs: int = 1
    """Measured runs that share it."""

    def doublings(self, other: Point) -> float:
        """How far two configurations lie apart: doublings of parameters, devices and tokens, added up."""
        pairs = (
            (self.parameters, other.parameters),
            (self.devices, other.devices),
            (self.tokens, other.tokens),
        )
        return sum(abs(math.log2(max(1, one) / max(1, two))) for one, two in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Ranges learnt from an instance's own measurements, before the shipped ones, and the points behind all of them."""

    version: int | None = None
    """Of the calibration set; None = the shipped ranges alone."""
    bands: Mapping[str, Band] = field(default_factory=dict)
    """Learnt ranges by name."""
    points: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    """Measured configurations by range."""

    def band(self, name: str) -> Band:
        """The range of a name: learnt, else shipped, else the one for what was never measured."""
        return self.bands[name] if name in self.bands else band(name)


SHIPPED = Evidence()
"""No set in force and no points known."""


def nearest(points: Iterable[Point], here: Point) -> dict[str, Any] | None:
    """The measured configuration fewest doublings away, as JSON values; None where none is known."""
    found = min(points, key=here.doublings, default=None)
    return None if found is None else {"doublings": round(here.doublings(found), 2), **asdict(found)}
