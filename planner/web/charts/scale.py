"""Axes: nice ticks and log positions."""

from __future__ import annotations

import math
from dataclasses import dataclass

_DECADE = (1.0, 2.0, 5.0)
_CLOSE = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
_FEW_TICKS = 3


@dataclass(frozen=True)
class LogAxis:
    """A log scale between two positive ends."""

    low: float
    high: float

    @classmethod
    def around(cls, values: list[float], margin: float = 0.06, below: float = 0.06) -> LogAxis:
        """The axis that holds all (positive) values, with shares of its length free above and `below` them."""
        low, high = math.log10(min(values)), math.log10(max(values))
        length = max(high - low, 0.5)
        return cls(10 ** (low - length * below), 10 ** (high + length * margin))

    def position(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high end."""
        return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))

    def ticks(self) -> list[float]:
        """Ticks at 1-2-5; under one decade of range the steps between are added."""
        coarse = self._ticks(_DECADE)
        return coarse if len(coarse) > _FEW_TICKS else self._ticks(_CLOSE)

    def _ticks(self, steps: tuple[float, ...]) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        found = [step * 10**power for power in range(first, last + 1) for step in steps]
        return [tick for tick in found if self.low <= tick <= self.high]


def linear_step(length: float) -> float:
    """The distance between ticks of a memory axis of `length` GiB: 10 below 48, 40 above 100, else 20."""
    small, large = 48, 100
    if length < small / 4:
        return 10 ** math.floor(math.log10(length / 2)) if length > 0 else 1.0
    if length < small:
        return 10.0
    if length <= large:
        return 20.0
    return 40.0 * math.ceil(length / 400)


def nice_step(length: float) -> float:
    """1, 2 or 5 times a power of ten: about five of them cover `length`."""
    power = 10.0 ** math.floor(math.log10(length / 5))
    return next(step * power for step in (1, 2, 5, 10) if length / (step * power) <= 5)  # noqa: PLR2004
