"""Sums and largest values over pipeline stages: a handful of columns, where walking columns beats reducing rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.units import Bytes, Floats


def total(values: NDArray[Any]) -> NDArray[Any]:
    """Sum over stages. [(N, S) -> (N, 1)]"""
    found = values[:, :1]
    for stage in range(1, values.shape[1]):
        found = found + values[:, stage : stage + 1]
    return found


def largest(values: Floats) -> Floats:
    """Largest over stages. [(N, S) -> (N, 1)]"""
    found = values[:, :1]
    for stage in range(1, values.shape[1]):
        found = np.maximum(found, values[:, stage : stage + 1])
    return found


def slowest(values: Floats) -> tuple[Floats, Bytes]:
    """Largest over stages and the first stage that has it. [(N, S) -> ((N, 1), (N, 1))]"""
    found = values[:, :1]
    index = np.zeros(found.shape, dtype=np.int64)
    for stage in range(1, values.shape[1]):
        column = values[:, stage : stage + 1]
        index = np.where(column > found, stage, index)
        found = np.maximum(found, column)
    return found, index
