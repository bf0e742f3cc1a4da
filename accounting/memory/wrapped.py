"""FSDP1's flat parameters: what one rank's slice of a wrapped unit holds of each tensor.

Source: torch 2.13 FlatParamHandle; measured bytes per rank (tests/truth/sharded.csv, FSDP1 rows).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accounting.memory.sharding import Piece
from accounting.partition import LocalTensor, Partition
from accounting.units import Bytes, ceil_div, pad_to

UNIT_ALIGNMENT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Wrapping:
    """How units are flattened."""

    alignment: int
    """Elements a tensor's start is aligned to; 1 without `use_orig_params`."""
    ways: Bytes
    """Ranks that share a unit, (N, 1); 1 under NO_SHARD."""
    padded_to: Bytes
    """Ranks the unit's length is a multiple of, (N, 1): NO_SHARD with original parameters pads to the whole group."""


@dataclass(frozen=True, slots=True)
class Run:
    """Equal tensors that stand one after the other in a unit."""

    item: LocalTensor
    start: Bytes
    """Elements before the first, (N, S)."""
    stride: Bytes
    """Elements from one start to the next, (N, 1)."""
    copies: Bytes
    """How many stand in one unit, (N, S)."""


@dataclass(frozen=True, slots=True)
class Unit:
    runs: tuple[Run, ...]
    length: Bytes
    """Elements of the flat parameter, padding included, (N, S)."""
    held: Bytes
    """How many such units a stage's rank has, (N, S)."""

    def shard(self, wrapping: Wrapping) -> Bytes:
        """Elements of one rank's slice. [(N, S)]"""
        return self.length // wrapping.ways


def flat_units(items: list[LocalTensor], partition: Partition, wrapping: Wrapping) -> list[Unit]:
    """Every kind of wrapped unit: alignment before each tensor but the first, then the length to the group."""
    units = []
    for index in sorted({item.unit for item in items}):
        members = [item for item in items if item.unit == index]
        blocks = partition.kind_layers[index] if index >= 0 else np.ones(partition.shape, dtype=np.int64)
        runs = []
        end = np.zeros(partition.shape, dtype=np.int64)
        for item in members:
            copies = (item.units if index < 0 else blocks > 0) * item.each
            start, stride = pad_to(end, wrapping.alignment), pad_to(item.elements, wrapping.alignment)
            runs.append(Run(item, start, stride, copies))
            end = np.where(copies > 0, start + stride * (copies - 1) + item.elements, end)
        held = blocks * (end > 0)
        units.append(Unit(tuple(runs), pad_to(end, wrapping.padded_to), held.astype(np.int64)))
    return units


def shard_pieces(units: list[Unit], wrapping: Wrapping) -> list[Piece]:
    """The flat slices a rank stores."""
    return [Piece((unit.shard(wrapping),), unit.held, None) for unit in units]


def slice_pieces(units: list[Unit], wrapping: Wrapping, rank: Bytes, *, empty: bool) -> list[Piece]:
    """What a `rank`'s slices hold of each original tensor, as the flat views the optimizer steps on.

    `empty` adds the tensors it holds nothing of: an optimizer that makes its states before the first gradient
    counts them too.
    """
    pieces = []
    for unit in units:
        for run in unit.runs:
            found = list(_run_pieces(unit, run, wrapping, rank))
            if empty:
                left = unit.held * run.copies - sum(piece.copies for piece in found)
                found.append(Piece((np.zeros_like(left),), left, run.item))
            pieces += found
    return pieces


def _run_pieces(unit: Unit, run: Run, wrapping: Wrapping, rank: Bytes) -> Iterator[Piece]:
    """The partial first tensor a slice meets, the whole ones, the partial last one."""
    size, span = run.item.elements, run.stride * run.copies
    low = (rank % wrapping.ways) * unit.shard(wrapping)
    begin = np.clip(low - run.start, 0, span)
    end = np.clip(low + unit.shard(wrapping) - run.start, 0, span)
    first, last = begin // run.stride, end // run.stride
    offset = np.minimum(begin - first * run.stride, size)
    tail = np.minimum(end - last * run.stride, size)
    within_one = first == last
    head = np.where(within_one, tail - offset, np.where(first < run.copies, size - offset, 0))
    yield Piece((head,), unit.held * (head > 0), run.item)
    yield Piece((size,), unit.held * np.maximum(last - first - 1, 0), run.item)
    rest = np.where(within_one, 0, tail)
    yield Piece((rest,), unit.held * (rest > 0), run.item)


def alignment_elements(itemsize: int, *, original_parameters: bool) -> int:
    """Elements that 16 bytes of the unit's lowest precision hold."""
    return ceil_div(UNIT_ALIGNMENT_BYTES, itemsize).item() if original_parameters else 1
