"""How many bytes `elements` take in a state's storage. Every function: (elements, context) -> int64 array. [byte]"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from accounting.units import Bytes, ceil_div

_TORCHAO_MINIMUM = 4096
_BLOCK8 = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageContext:
    options: Mapping[str, Any]
    parameter_itemsize: int
    """Bytes per element of what the optimizer steps: the master copy where there is one."""
    state_itemsize: int | None = None
    """Bytes per element a precision recipe asks for; None = the library's rule."""
    embedding: bool = False


Storage = Callable[[Bytes, StorageContext], Bytes]


def parameter(elements: Bytes, context: StorageContext) -> Bytes:
    """The dtype of what is stepped."""
    return elements * (context.state_itemsize or context.parameter_itemsize)


def fp32(elements: Bytes, context: StorageContext) -> Bytes:
    """fp32 whatever is stepped."""
    return elements * (context.state_itemsize or 4)


def bf16(elements: Bytes, context: StorageContext) -> Bytes:
    """bf16 whatever is stepped."""
    return elements * 2


def byte(elements: Bytes, context: StorageContext) -> Bytes:
    """One byte each: a mask, an 8-bit correction."""
    return elements


def int64(elements: Bytes, context: StorageContext) -> Bytes:
    """Eight bytes each: counters."""
    return elements * 8


def blockwise8(elements: Bytes, context: StorageContext) -> Bytes:
    """bitsandbytes: n + 4·ceil(n/256); fp32 below `min_8bit_size` elements and for overridden embeddings."""
    whole = elements * 4
    if context.embedding and context.options.get("embeddings_32bit"):
        return whole
    return np.where(elements >= context.options["min_8bit_size"], elements + 4 * ceil_div(elements, _BLOCK8), whole)


def _torchao(elements: Bytes, context: StorageContext, quantised: Bytes) -> Bytes:
    block = context.options["block_size"]
    fits = (elements >= _TORCHAO_MINIMUM) & (elements % block == 0)
    return np.where(fits, quantised, elements * context.parameter_itemsize)


def torchao8(elements: Bytes, context: StorageContext) -> Bytes:
    """n + 4·n/block + a private 1,024-byte map, where n >= 4096 and the block divides it; else parameter dtype."""
    return _torchao(elements, context, elements + 4 * (elements // context.options["block_size"]) + 1024)


def torchao4(elements: Bytes, context: StorageContext) -> Bytes:
    """n/2 + 4·n/block + a private 64-byte map, under the same condition."""
    return _torchao(elements, context, elements // 2 + 4 * (elements // context.options["block_size"]) + 64)


def torchao_fp8(elements: Bytes, context: StorageContext) -> Bytes:
    """n + 4·n/block, under the same condition."""
    return _torchao(elements, context, elements + 4 * (elements // context.options["block_size"]))


def int8_groups32(elements: Bytes, context: StorageContext) -> Bytes:
    """FlashAdamW: int8 and one fp16 scale per 32 elements."""
    return elements + 2 * ceil_div(elements, 32)


STORAGES: Mapping[str, Storage] = MappingProxyType(
    {
        function.__name__: function
        for function in (parameter, fp32, bf16, byte, int64, blockwise8, torchao8, torchao4, torchao_fp8, int8_groups32)
    }
)
OVERRIDABLE = frozenset({"parameter", "fp32"})
"""Storages that a recipe's own `optimizer_states` dtype replaces; quantised ones keep their format."""
