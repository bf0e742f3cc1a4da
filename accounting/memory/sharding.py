"""How each engine cuts parameters, gradients and optimizer states over the data-parallel group.

Source: measured bytes per rank of every engine on small models (912 of 912 rows of tests/truth/sharded.csv);
Megatron-Core param_and_grad_buffer for its padding; Rajbhandari 2020 Table 1 for `ideal`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from accounting.partition import ONE, LocalTensor, Partition, add_up
from accounting.scenario import EVENLY_SPREAD
from accounting.units import Bytes, ceil_div, pad_to
from accounting.vocabulary import Engine


class Cut(StrEnum):
    """The law by which a tensor is divided."""

    NONE = "none"
    DIM0 = "dim0"
    """FSDP2: chunks of ceil(rows / W) rows, padded on every rank; states only for real rows."""
    TENSOR = "tensor"
    """DeepSpeed stage 3: each tensor alone, ceil(n / W); the optimizer steps on flat sub-groups of them."""
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
PADDED_WHOLE = (Cut.FLAT, Cut.BUFFER)
"""Here undivided parameters and gradients lie in the padded flat buffer as well."""
_MEGATRON_PARAMETER_ALIGNMENT = 64
_MEGATRON_BUCKET_ALIGNMENT = 128


def law_of(engine: Engine, zero_stage: int) -> Law:
    """FSDP shards all three at rest whatever its stage; the others follow the stage."""
    stage = 3 if engine in FSDP else zero_stage
    return Law(_CUTS[engine][zero_stage], *_STAGES[stage])


@dataclass(frozen=True)
class Piece:
    """One array as a rank stores it: its dims, each broadcasting to (N, S), and how many a stage's rank has.

    units · each of them, (N, S), as in LocalTensor.
    """

    dims: tuple[Bytes, ...]
    units: Bytes
    item: LocalTensor | None
    """The tensor it comes from; None where several lie in one flat array."""
    each: Bytes = field(default_factory=lambda: ONE)
    """How many of them one of the units has. [broadcasts to (N, 1)]"""

    @cached_property
    def elements(self) -> Bytes:
        """Elements of one. [broadcasts to (N, S)]"""
        total = ONE
        for dim in self.dims:
            total = total * dim
        return total

    @property
    def copies(self) -> Bytes:
        """How many of them a stage's rank has. [(N, S)]"""
        return self.units * self.each


def group_of(item: LocalTensor, partition: Partition) -> Bytes:
    """Ranks that share a tensor: an expert's own group, else the shard group. [(N, 1)]"""
    return partition.expert_shard_group if item.tensor.expert else partition.shard_group


def whole_pieces(items: list[LocalTensor]) -> list[Piece]:
    """Every tensor uncut."""
    return [Piece(item.dims, item.units, item, item.each) for item in items]


def row_pieces(items: list[LocalTensor], partition: Partition, rank: Bytes | None = None) -> list[Piece]:
    """FSDP2's shards: ceil(rows / W) rows as they are stored, or the real rows of one `rank` of the shard group."""
    pieces = []
    for item in items:
        ways = group_of(item, partition)
        first = item.dims[0] if item.dims else np.ones_like(ways)
        chunk = ceil_div(first, ways)
        rows = chunk if rank is None else np.clip(first - (rank % ways) * chunk, 0, chunk)
        pieces.append(Piece((rows, *item.dims[1:]), item.units, item, item.each))
    return pieces


def tensor_pieces(items: list[LocalTensor], partition: Partition) -> list[Piece]:
    """DeepSpeed stage 3's shards: each tensor padded alone to a multiple of the group."""
    return [Piece((ceil_div(item.elements, group_of(item, partition)),), item.units, item, item.each) for item in items]


def flat_pieces(cut: Cut, items: list[LocalTensor], partition: Partition, *, divided: bool) -> list[Piece]:
    """The flat buffers of a rank, dense and experts apart, padded to the group; `divided`: one rank's part of them."""
    pieces = []
    for expert in (False, True):
        members = [item for item in items if item.tensor.expert is expert]
        if members:
            ways = group_of(members[0], partition)
            total = _flat_length(cut, members, partition, ways)
            held = ceil_div(total, ways) if divided else total
            pieces.append(Piece((held,), (held > 0).astype(np.int64), None))
    return pieces


def _flat_length(cut: Cut, members: list[LocalTensor], partition: Partition, ways: Bytes) -> Bytes:
    def size(item: LocalTensor) -> Bytes:
        # A bare count names no tensors: nothing is known to be aligned.
        aligned = cut is Cut.BUFFER and item.tensor.role != EVENLY_SPREAD
        return pad_to(item.elements, _MEGATRON_PARAMETER_ALIGNMENT) if aligned else item.elements

    total = add_up(((item.units, item.each, size(item)) for item in members), partition.shape)
    if all(item.tensor.role == EVENLY_SPREAD for item in members):
        return total
    return pad_to(total, np.lcm(ways, _MEGATRON_BUCKET_ALIGNMENT) if cut is Cut.BUFFER else 2 * ways)


def stored_elements(pieces: list[Piece], shape: tuple[int, int]) -> Bytes:
    """Elements of all pieces. [(N, S)]"""
    return add_up(((piece.units, piece.each, piece.elements) for piece in pieces), shape)
