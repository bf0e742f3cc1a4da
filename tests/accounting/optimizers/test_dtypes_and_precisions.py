"""Bytes at rest of every format, and what each precision preset stores per parameter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from accounting.facts.dtypes import DTYPES, find_dtype, itemsize, stored_bytes, tensor_constant_bytes
from accounting.facts.precisions import PRESETS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("fp32", Fraction(4)), ("bf16", Fraction(2)), ("fp16", Fraction(2)), ("fp8", Fraction(1))),
        *(("nf4", Fraction(9, 16)), ("mxfp8", Fraction(33, 32)), ("nvfp4", Fraction(9, 16)), ("int8", Fraction(1))),
    ],
)
def test_bytes_per_element_are_exact(name: str, expected: Fraction) -> None:
    assert find_dtype(name).bytes_per_element == expected


def test_nf4_golden_numbers() -> None:
    assert int(stored_bytes("nf4", 4096 * 4096)) == 8_388_608 + 4 * 262_144 == 9_437_184
    blocks = 262_144
    assert int(stored_bytes("nf4", 4096 * 4096, double_quant=True)) == 8_388_608 + blocks + 4 * (blocks // 256)
    assert int(stored_bytes("nf4", 65)) == 33 + 8
    assert tensor_constant_bytes("nf4") == 64
    assert tensor_constant_bytes("nf4", double_quant=True) == 68


def test_row_scaled_formats_need_their_rows() -> None:
    assert int(stored_bytes("int8", 4096 * 1024, rows=4096)) == 4096 * 1024 + 4 * 4096
    with pytest.raises(ValueError, match="rows"):
        stored_bytes("int8", 4096)
    weight, scales, zeros, index = 4096 * 1024 // 2, 4096 * 8 * 2, 512 * 8 * 4, 1024 * 4
    assert int(stored_bytes("gptq-int4", 4096 * 1024, rows=4096)) == weight + scales + zeros + index


def test_plain_formats_are_element_count_times_width_on_arrays() -> None:
    counts = np.array([0, 1, 7, 3_000_000_000], dtype=np.int64)
    assert stored_bytes("bf16", counts).tolist() == [0, 2, 14, 6_000_000_000]
    assert itemsize("float32") == 4
    with pytest.raises(ValueError, match="stored_bytes"):
        itemsize("nf4")
    with pytest.raises(KeyError, match="fp32"):
        find_dtype("fp33")


@pytest.mark.parametrize(
    ("preset", "weight", "gradient", "master", "moments"),
    [
        ("fp32", 4, 4, 0, 8),
        ("bf16-mixed", 4, 4, 0, 8),
        ("fp16-mixed", 4, 4, 0, 8),
        ("bf16-master", 2, 2, 4, 8),
        ("fp16-master", 2, 2, 4, 8),
        ("bf16-master-fp32grad", 2, 4, 4, 8),
        ("bf16-pure", 2, 2, 0, 4),
        ("fp8-mixed", 4, 4, 0, 8),
        ("fp8-master", 2, 4, 4, 8),
        ("mxfp8-master", 2, 4, 4, 8),
        ("nvfp4-master", 2, 4, 4, 8),
    ],
)
def test_every_preset_stores_what_the_contract_says(
    preset: str, weight: int, gradient: int, master: int, moments: int
) -> None:
    precision = PRESETS[preset]
    assert itemsize(precision.parameters) == weight
    assert precision.gradients is not None
    assert itemsize(precision.gradients) == gradient
    assert (itemsize(precision.master_weights) if precision.master_weights else 0) == master
    assert 2 * itemsize(precision.stepped) == moments


def test_every_preset_names_known_dtypes() -> None:
    for precision in PRESETS.values():
        for name in (precision.compute, precision.parameters, precision.gradients, precision.reduce):
            assert name in DTYPES
        assert precision.activations in {"fp32", "bf16", "fp16"}
