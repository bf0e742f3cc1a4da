"""Number formats: how many bytes one element takes at rest, block scales included.

`bytes_per_element` is an exact rational (NF4 is half a byte and one fp32 scale per 64 elements), `stored_bytes` the
whole bytes of real tensors, where the last block is partial and scales are per row or per group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import MappingProxyType

import numpy as np

from accounting.units import Bytes, ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    name: str
    element_bits: int
    """Bits of one element without its share of the scales."""
    scale_block: int | None = None
    """Elements that share one scale; None where there is none, or one per row or tensor."""
    scale_bytes: int = 0
    """Bytes of one scale."""
    tensor_bytes: int = 0
    """Bytes kept once per tensor (code book, tensor-wide scale)."""
    storable: bool = True
    """False where the format only computes and the tensor rests in another."""
    trainable: bool = True
    """False for formats that only a frozen base may take."""
    aliases: tuple[str, ...] = ()
    source: str = ""

    @property
    def bytes_per_element(self) -> Fraction:
        """Asymptotic bytes of one element, block scales included. [byte]"""
        scale = Fraction(self.scale_bytes, self.scale_block) if self.scale_block else Fraction(0)
        return Fraction(self.element_bits, 8) + scale


_IEEE = "IEEE 754-2019"
_ROWS = (
    Dtype(name="fp64", element_bits=64, aliases=("float64", "double"), source=_IEEE),
    Dtype(name="fp32", element_bits=32, aliases=("float32", "float"), source=_IEEE),
    Dtype(
        name="tf32",
        element_bits=32,
        storable=False,
        source="NVIDIA A100 white paper: a compute mode of fp32 tensors, nothing rests in it",
    ),
    Dtype(name="bf16", element_bits=16, aliases=("bfloat16",), source="bfloat16: 8 exponent, 7 fraction bits"),
    Dtype(name="fp16", element_bits=16, aliases=("float16", "half"), source=_IEEE),
    Dtype(
        name="fp8",
        element_bits=8,
        tensor_bytes=4,
        aliases=("float8", "fp8-e4m3", "fp8-e5m2"),
        source="OCP 8-bit floating point 1.0; one fp32 scale per tensor (Transformer Engine delayed scaling, torchao)",
    ),
    Dtype(
        name="mxfp8",
        element_bits=8,
        scale_block=32,
        scale_bytes=1,
        source="OCP microscaling formats 1.0: 32 elements share one E8M0 scale",
    ),
    Dtype(
        name="nvfp4",
        element_bits=4,
        scale_block=16,
        scale_bytes=1,
        tensor_bytes=4,
        source="NVIDIA Blackwell NVFP4: 16 elements share one E4M3 scale, one fp32 scale per tensor",
    ),
    Dtype(
        name="int8",
        element_bits=8,
        trainable=False,
        source="bitsandbytes 0.50.2 Linear8bitLt: int8 weight and one fp32 scale (SCB) per output row",
    ),
    Dtype(
        name="nf4",
        element_bits=4,
        scale_block=64,
        scale_bytes=4,
        tensor_bytes=64,
        trainable=False,
        source="bitsandbytes 0.50.2 Linear4bit: blocks of 64, fp32 absmax, a 16-entry fp32 code per tensor",
    ),
    Dtype(
        name="gptq-int4",
        element_bits=4,
        scale_block=128,
        scale_bytes=2,
        trainable=False,
        source="GPTQ checkpoints: packed weights, fp16 scales and packed 4-bit zeros per group of 128, int32 g_idx",
    ),
)
DTYPES: Mapping[str, Dtype] = MappingProxyType({row.name: row for row in _ROWS})
_BY_ALIAS = {alias: row for row in _ROWS for alias in (row.name, *row.aliases)}

_DOUBLE_QUANT_BLOCK = 256
_DOUBLE_QUANT_OFFSET_BYTES = 4
DOUBLE_QUANT_CODE_BYTES = 1024
"""One 256-entry fp32 map that the second quantisation of every NF4 tensor on a device shares. [byte per process]"""


def find_dtype(name: str) -> Dtype:
    """The format of that name or alias, case ignored.

    Raises KeyError with the known names where there is none.
    """
    try:
        return _BY_ALIAS[name.lower()]
    except KeyError:
        raise KeyError(f"unknown dtype {name!r}; known: {', '.join(DTYPES)}") from None


@cache
def itemsize(name: str) -> int:
    """Whole bytes of one element of an unquantised format. [byte]

    Raises ValueError for a format whose elements do not take whole bytes (NF4, NVFP4, MXFP8 with its scales).
    """
    exact = find_dtype(name).bytes_per_element
    if exact.denominator != 1:
        raise ValueError(f"{name} takes {exact} bytes per element: use stored_bytes")
    return exact.numerator


def stored_bytes(
    name: str,
    elements: Bytes | int,
    rows: Bytes | int | None = None,
    *,
    double_quant: bool = False,
    block_size: int | None = None,
) -> Bytes:
    """Bytes of one tensor at rest, scales included, code book and tensor-wide scale not. [byte, like elements]

    nf4:        ceil(n/2) + 4·B, B = ceil(n/64); double quantisation: ceil(n/2) + B + 4·ceil(B/256)
    int8:       n + 4·rows
    gptq-int4:  with [out, in], G = ceil(in/128): n/2 + out·G·2 + ceil(out/8)·G·4 + 4·in
    others:     n elements and one scale per started block

    `rows` is the number of output rows; int8 and gptq-int4 need it and raise ValueError without. `block_size` replaces
    the format's own block. Not here: `tensor_constant_bytes`.
    Source: bitsandbytes 0.50.2 functional.quantize_4bit, Linear8bitLt; memory formulas C6; GPTQ checkpoint layout.
    """
    dtype = find_dtype(name)
    count = np.asarray(elements, dtype=np.int64)
    packed = ceil_div(count * dtype.element_bits, 8)
    if dtype.name in {"int8", "gptq-int4"}:
        if rows is None:
            raise ValueError(f"{dtype.name} keeps scales per output row: give rows")
        out = np.asarray(rows, dtype=np.int64)
        if dtype.name == "int8":
            return packed + 4 * out
        return _gptq_bytes(count, out, block_size or 128)
    block = block_size or dtype.scale_block
    if block is None:
        return packed
    blocks = ceil_div(count, block)
    if double_quant and dtype.name == "nf4":
        return packed + blocks + 4 * ceil_div(blocks, _DOUBLE_QUANT_BLOCK)
    return packed + dtype.scale_bytes * blocks


def _gptq_bytes(count: Bytes, out: Bytes, group: int) -> Bytes:
    columns = count // np.maximum(out, 1)
    groups = ceil_div(columns, group)
    size: Bytes = ceil_div(count, 2) + 2 * out * groups + 4 * ceil_div(out, 8) * groups + 4 * columns
    return size


def tensor_constant_bytes(name: str, *, double_quant: bool = False) -> int:
    """Bytes kept once per stored tensor beside `stored_bytes`: code book, tensor-wide scale, offset. [byte]"""
    dtype = find_dtype(name)
    return dtype.tensor_bytes + (_DOUBLE_QUANT_OFFSET_BYTES if double_quant and dtype.name == "nf4" else 0)
