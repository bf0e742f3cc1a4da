"""Whole-number helpers, against Python's own integers."""

from __future__ import annotations

import numpy as np

from accounting.units import share_of


def test_a_share_is_exact_beyond_64_bits() -> None:
    chance = np.random.default_rng(5)
    whole = chance.integers(1, 2**46, 5000)
    part = (chance.random(5000) * whole).astype(np.int64)
    amount = chance.integers(0, 2**48, 5000)
    wanted = [int(a) * int(p) // int(w) for a, p, w in zip(amount, part, whole, strict=True)]
    assert max(int(a) * int(p) for a, p in zip(amount, part, strict=True)) > 2**63
    assert share_of(amount, part, whole).tolist() == wanted
