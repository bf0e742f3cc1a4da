"""Bytes a device sends, by collective and by link; sums and multiples of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from accounting.units import Bytes, Floats


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes sent per device, float64 of shape (N, 1) until they are rounded once at the end."""

    all_gather: Floats | float = 0.0
    reduce_scatter: Floats | float = 0.0
    all_reduce: Floats | float = 0.0
    all_to_all: Floats | float = 0.0
    point_to_point: Floats | float = 0.0
    across: Floats | float = 0.0
    """Of all of them, what leaves the node (or the rack of fast links)."""

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(_sum(getattr(self, name), getattr(other, name)) for name in _MEMBERS))

    def times(self, factor: Floats | float) -> Traffic:
        """The same, `factor` times."""
        return Traffic(*(_times(getattr(self, name), factor) for name in _MEMBERS))

    def total(self) -> Floats | float:
        """Over all collectives. [byte, (N, 1)]"""
        return self.all_gather + self.reduce_scatter + self.all_reduce + self.all_to_all + self.point_to_point

    def rounded(self, rows: int) -> dict[str, Bytes]:
        """Whole bytes by collective, int64 of shape (rows, 1)."""
        return {name: whole(getattr(self, name), rows) for name in _MEMBERS if name != "across"}


_MEMBERS = tuple(item.name for item in fields(Traffic))


def whole(amount: Floats | float, rows: int) -> Bytes:
    """Whole bytes, int64 of shape (rows, 1)."""
    return np.broadcast_to(np.rint(amount), (rows, 1)).astype(np.int64)


def _nothing(value: Floats | float) -> bool:
    return isinstance(value, float) and value == 0.0


def _sum(left: Floats | float, right: Floats | float) -> Floats | float:
    """Without touching an array to add nothing: most collectives are absent."""
    if _nothing(left):
        return right
    return left if _nothing(right) else left + right


def _times(value: Floats | float, factor: Floats | float) -> Floats | float:
    return value if _nothing(value) else value * factor
