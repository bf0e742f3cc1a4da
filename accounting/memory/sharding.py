"""How each engine cuts parameters, gradients and optimizer states over the data-parallel group.

Source: measured bytes per rank of every engine on small models (optimizers, Sharding: 912 of 912 rows); Megatron-Core
param_and_grad_buffer for its padding; Rajbhandari 2020 Table 1 for `ideal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from accounting.partition import LocalTensor, Partition
from accounting.units import Bytes, ceil_div, pad_to
from accounting.vocabulary import Engine


class Cut(StrEnum):
    """The law by which a tensor is divided."""

    NONE = "none"
    DIM0 = "dim0"
    """FSDP2: chunks of ceil(rows / W) rows, padded on every rank."""
    TENSOR = "tensor"
    """DeepSpeed stage 3: each tensor alone, ceil(n / W)."""
    UNIT = "unit"
    """FSDP1: one flat parameter per wrapped unit."""
    FLAT = "flat"
    """DeepSpeed stages 1, 2: one flat group padded to 2W."""
    BUFFER = "buffer"
    """Megatron: one flat buffer, parameters aligned to 64 elements, its end to lcm(W, 128)."""
    EVEN = "even"
    """The paper's: no padding, the sum over W."""


@dataclass(frozen=True, slots=True)
class Law:
    """What one engine divides at one stage."""

    cut: Cut
    parameters: bool
    gradients: bool
    states: bool


_STAGES = {0: (False, False, False), 1: (False, False, True), 2: (False, True, True), 3: (True, True, True)}
_CUTS: dict[Engine, dict[int, Cut]] = {
    Engine.DDP: dict.fromkeys(range(4), Cut.NONE),
    Engine.FSDP1: dict.fromkeys(range(4), Cut.UNIT),
    Engine.FSDP2: dict.fromkeys(range(4), Cut.DIM0),
    Engine.DEEPSPEED: {0: Cut.NONE, 1: Cut.FLAT, 2: Cut.FLAT, 3: Cut.TENSOR},
    Engine.MEGATRON: {0: Cut.NONE, 1: Cut.BUFFER, 2: Cut.BUFFER, 3: Cut.BUFFER},
    Engine.IDEAL: dict.fromkeys(range(4), Cut.EVEN),
}
FSDP = (Engine.FSDP1, Engine.FSDP2)
_UNIT_ALIGNMENT_BYTES = 16
_MEGATRON_PARAMETER_ALIGNMENT = 64
_MEGATRON_BUCKET_ALIGNMENT = 128


def law_of(engine: Engine, zero_stage: int) -> Law:
    """FSDP shards all three at rest whatever its stage; the others follow the stage."""
    stage = 3 if engine in FSDP else zero_stage
    return Law(_CUTS[engine][zero_stage], *_STAGES[stage])


@dataclass(frozen=True, slots=True)
class Piece:
    """One array as a rank stores it: dims (N, 1) each, and how many a stage's rank has, (N, S)."""

    dims: tuple[Bytes, ...]
    copies: Bytes
    item: LocalTensor | None
    """The tensor it comes from; None where several lie in one flat array."""

    @property
    def elements(self) -> Bytes:
        total = np.ones((1, 1), dtype=np.int64)
        for dim in self.dims:
            total = total * dim
        return total


def group_of(item: LocalTensor, partition: Partition) -> Bytes:
    return partition.expert_shard_group if item.tensor.expert else partition.shard_group


def whole_pieces(items: list[LocalTensor]) -> list[Piece]:
    return [Piece(item.dims, item.copies, item) for item in items]


def cut_pieces(cut: Cut, items: list[LocalTensor], partition: Partition, itemsize: int) -> list[Piece]:
    """The arrays a rank keeps of `items` under a cut. An `itemsize` is needed where padding is in bytes (FSDP1)."""
    if cut in (Cut.NONE, Cut.EVEN):
        return whole_pieces(items)
    if cut is Cut.DIM0:
        return [_rows_piece(item, group_of(item, partition)) for item in items]
    if cut is Cut.TENSOR:
        return [Piece((ceil_div(item.elements, group_of(item, partition)),), item.copies, item) for item in items]
    if cut is Cut.UNIT:
        return _unit_pieces(items, partition, itemsize)
    return [piece for expert in (False, True) for piece in _flat_piece(cut, items, partition, expert=expert)]


def _rows_piece(item: LocalTensor, ways: Bytes) -> Piece:
    if not item.dims:
        return Piece((np.ones_like(ways),), item.copies, item)
    return Piece((ceil_div(item.dims[0], ways), *item.dims[1:]), item.copies, item)


def _unit_pieces(items: list[LocalTensor], partition: Partition, itemsize: int) -> list[Piece]:
    """Inner alignment before every tensor but the first, then the unit to a multiple of the group."""
    align = max(_UNIT_ALIGNMENT_BYTES // itemsize, 1)
    pieces = []
    for unit in sorted({item.unit for item in items}):
        members = [item for item in items if item.unit == unit]
        blocks = partition.kind_layers[unit] if unit >= 0 else np.int64(1)
        total = np.zeros(partition.shape, dtype=np.int64)
        for position, item in enumerate(members):
            per_block = item.copies // np.maximum(blocks, 1)
            last = position == len(members) - 1
            total = total + (item.elements if last else pad_to(item.elements, align)) * per_block
        held = blocks + np.zeros(partition.shape, dtype=np.int64) if unit >= 0 else (total > 0).astype(np.int64)
        pieces.append(Piece((ceil_div(total, partition.shard_group),), held, None))
    return pieces


def _flat_piece(cut: Cut, items: list[LocalTensor], partition: Partition, *, expert: bool) -> list[Piece]:
    members = [item for item in items if item.tensor.expert is expert]
    if not members:
        return []
    ways = group_of(members[0], partition)
    total = np.zeros(partition.shape, dtype=np.int64)
    for item in members:
        aligned = pad_to(item.elements, _MEGATRON_PARAMETER_ALIGNMENT) if cut is Cut.BUFFER else item.elements
        total = total + aligned * item.copies
    multiple = np.lcm(ways, _MEGATRON_BUCKET_ALIGNMENT) if cut is Cut.BUFFER else 2 * ways
    shard = pad_to(total, multiple) // ways
    return [Piece((shard,), (shard > 0).astype(np.int64), None)]


def stored_elements(pieces: list[Piece], shape: tuple[int, int]) -> Bytes:
    """Elements of all pieces. [(N, S)]"""
    total = np.zeros(shape, dtype=np.int64)
    for piece in pieces:
        total = total + piece.elements * piece.copies
    return total
