"""The only constants and conversions. The core speaks bytes (int64), seconds, FLOP and USD (float64)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
GB = 10**9
TERA = 1e12
GIGA = 1e9

Bytes = NDArray[np.int64]
"""Whole bytes, broadcastable to (candidates, pipeline stages)."""
Floats = NDArray[np.float64]
"""Seconds, FLOP or USD, broadcastable to (candidates, pipeline stages)."""


def ceil_div(numerator: Bytes | int, denominator: Bytes | int) -> Bytes:
    """Smallest whole number not below numerator / denominator. [same unit as numerator]"""
    top = np.asarray(numerator, dtype=np.int64)
    return -(-top // np.asarray(denominator, dtype=np.int64))


def pad_to(size: Bytes | int, multiple: Bytes | int) -> Bytes:
    """`size` rounded up to a whole multiple. [same unit as size]"""
    return ceil_div(size, multiple) * np.asarray(multiple, dtype=np.int64)


_LIMB = 16
_LIMBS = 4


def share_of(amount: Bytes, part: Bytes, whole: Bytes) -> Bytes:
    """floor(amount · part / whole), exactly, also where the product is beyond int64. [unit of amount]

    0 ≤ part and 1 ≤ whole, both below 2^46 (70 trillion). Long multiplication: 16 bits of `part` at a time.
    """
    quotient, rest = np.divmod(np.asarray(amount, dtype=np.int64), whole)
    result = quotient * part
    tail = carried = np.zeros((), dtype=np.int64)
    for limb in reversed(range(_LIMBS)):
        value = (carried << _LIMB) + rest * ((part >> (_LIMB * limb)) & ((1 << _LIMB) - 1))
        tail = (tail << _LIMB) + value // whole
        carried = value % whole
    return np.asarray(result + tail)
