"""DeepSpeed's flat order: which whole tensors a partition touches, and how stage 3 fills its sub-groups.

Candidates that cut a model alike share one answer, so a search asks once per layout.
Source: deepspeed 0.19.8 stage_1_and_2, stage3; measured bytes per rank (tests/truth/sharded.csv).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.partition import LocalTensor, Partition
from accounting.scenario import EVENLY_SPREAD, Layout
from accounting.units import Bytes

Sizes = NDArray[np.int64]
_MODEL_CUTS = ("tp", "pp", "vpp", "ep", "etp")


@dataclass(frozen=True, slots=True)
class FlatOrder:
    """Tensors that one optimizer group flattens, and the ranks that share it."""

    items: list[LocalTensor]
    partition: Partition
    layout: Layout
    pattern: tuple[int, ...]
    ways: Bytes


def touched_elements(order: FlatOrder, rank: Bytes | None) -> tuple[Bytes, Bytes]:
    """(elements of every tensor that reaches into a rank's partition, tail padding included; the rank), both (N, S).

    `rank` None asks for the rank with the most. A gradient is kept as a view of its whole tensor.
    """
    count = order.layout.count
    wanted = np.full_like(count, -1) if rank is None else np.broadcast_to(rank, count.shape)

    def spans(sizes: Sizes, ways: int, asked: int) -> tuple[int, int]:
        held = _spans(sizes, ways)
        worst = int(np.argmax(held)) if asked < 0 else asked % ways
        return int(held[worst]), worst

    return _by_layout(order, wanted, spans)


def _spans(sizes: Sizes, ways: int) -> Sizes:
    """Elements of each rank's touched tensors. [(ways,)]"""
    total = int(sizes.sum())
    part = -(-total // (2 * ways)) * 2
    ends = np.cumsum(sizes)
    starts = ends - sizes
    low = np.arange(ways, dtype=np.int64) * part
    high = low + part
    # The first tensor that ends behind `low`, and the first that starts at or behind `high`.
    first, behind = np.searchsorted(ends, low, side="right"), np.searchsorted(starts, high, side="left")
    before = np.concatenate([[0], ends])
    real = np.where(behind > first, before[behind] - before[np.minimum(first, len(sizes))], 0)
    padding = np.where(high > total, high - np.maximum(low, total), 0)
    return np.asarray(real + padding, dtype=np.int64)


def sub_groups(order: FlatOrder, size: int) -> Bytes:
    """How many sub-groups stage 3 steps through: tensors fill one until its shards reach `size` elements. [(N, S)]"""

    def count(sizes: Sizes, ways: int, _: int) -> tuple[int, int]:
        ends = np.cumsum(-(-sizes // ways))
        groups, filled = 0, 0
        while filled < ends[-1]:
            place = int(np.searchsorted(ends, filled + size, side="left"))
            filled = int(ends[min(place, len(ends) - 1)])
            groups += 1
        return groups, 0

    return _by_layout(order, np.zeros_like(order.layout.count), count)[0]


def _by_layout(
    order: FlatOrder, asked: Bytes, answer: Callable[[Sizes, int, int], tuple[int, int]]
) -> tuple[Bytes, Bytes]:
    """`answer` of each distinct way to cut the model, spread over the candidates; 0 for a bare count."""
    layout = order.layout
    keys = np.concatenate([*(getattr(layout, name) for name in _MODEL_CUTS), order.ways, asked], axis=1)
    distinct, first, back = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    values = np.zeros((2, len(distinct), order.partition.shape[1]), dtype=np.int64)
    for group, row in enumerate(first):
        for stage in range(int(layout.pp[row, 0])):
            sizes = flat_sizes(order, int(row), stage)
            if len(sizes):
                values[:, group, stage] = answer(sizes, int(order.ways[row, 0]), int(asked[row, 0]))
    spread = values[:, back.reshape(-1), :]
    return spread[0], spread[1]


def flat_sizes(order: FlatOrder, row: int, stage: int) -> Sizes:
    """Elements of every tensor of one rank in the order the library flattens them; none for a bare count."""
    items, partition = order.items, order.partition

    def of(unit: int) -> Sizes:
        members = [item for item in items if item.unit == unit and item.tensor.role != EVENLY_SPREAD]
        blocks = int(partition.kind_layers[unit][row, stage]) if unit >= 0 else 1
        copies = [int(np.broadcast_to(item.copies, partition.shape)[row, stage]) // max(blocks, 1) for item in members]
        each = [int(np.broadcast_to(item.elements, (partition.shape[0], 1))[row, 0]) for item in members]
        return np.repeat(np.asarray(each, dtype=np.int64), copies)

    kinds = [of(kind) for kind in range(len(partition.kind_layers))]
    held = [int(count[row, stage]) for count in partition.kind_layers]
    blocks = [np.tile(kinds[0], held[0])] if len(kinds) == 1 else _in_order(kinds, held, order.pattern)
    root = of(-1)
    before = _leading(items, partition, row, stage)
    return np.concatenate([root[:before], *blocks, root[before:]]).astype(np.int64)


def _in_order(kinds: list[Sizes], held: list[int], pattern: tuple[int, ...]) -> list[Sizes]:
    """Blocks in the model's order as far as the stage has them."""
    left = list(held)
    ordered = []
    for kind in pattern:
        if left[kind]:
            left[kind] -= 1
            ordered.append(kinds[kind])
    return ordered


def _leading(items: list[LocalTensor], partition: Partition, row: int, stage: int) -> int:
    """How many root tensors stand before the blocks: they come first among the partition's own."""
    count = 0
    for item in items:
        if item.unit >= 0:
            break
        if item.leading and item.tensor.role != EVENLY_SPREAD:
            count += int(np.broadcast_to(item.copies, partition.shape)[row, stage])
    return count
