"""Who holds what: blocks, tokens, tensors and groups of every rank, computed once per scenario.

Arrays are int64 of shape (N, 1), or (N, S) where they differ by pipeline stage; S is the scenario's deepest pipeline
and `active` says which stages a candidate has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accounting.implementation import runs_modules
from accounting.model.tensors import Inventory, LayerKind, Tensor
from accounting.scenario import EVENLY_SPREAD, Layout, Recipe, Scenario
from accounting.schedules import live_chunks
from accounting.units import Bytes, ceil_div
from accounting.vocabulary import Schedule


@dataclass(frozen=True)
class LocalTensor:
    """One kind of tensor on a rank, after tensor, expert and pipeline parallelism, before data-parallel sharding."""

    tensor: Tensor
    dims: tuple[Bytes, ...]
    """Local dimensions. [each broadcasts to (N, 1)]"""
    units: Bytes
    """Blocks of its kind on the rank of each stage, or 0 and 1 for the root's, (N, S); tensors that share it share
    the array."""
    each: Bytes
    """How many of them one unit has on the rank. [broadcasts to (N, 1)]"""
    unit: int
    """Index of the wrapped unit it belongs to: a layer kind, or -1 for the root (embeddings, final norm, head)."""
    leading: bool = False
    """Stands before the blocks."""

    @cached_property
    def elements(self) -> Bytes:
        """Elements of one copy. [broadcasts to (N, 1)]"""
        total = ONE
        for dim in self.dims:
            total = total * dim
        return total

    @cached_property
    def copies(self) -> Bytes:
        """How many of them the rank of each stage holds. [(N, S)]"""
        return self.units * self.each


ONE: Bytes = np.ones((1, 1), dtype=np.int64)


def add_up(parts: Iterable[tuple[Bytes, Bytes, Bytes | int]], shape: tuple[int, int]) -> Bytes:
    """Sum of units · copies of each unit · amount of a copy. [unit of the amounts, (N, S)]

    What shares its array of units is added up before it is spread over the stages.
    """
    groups: dict[int, tuple[Bytes, list[Bytes]]] = {}
    for units, each, amount in parts:
        groups.setdefault(id(units), (units, []))[1].append(each * amount)
    total = np.zeros(shape, dtype=np.int64)
    for units, amounts in groups.values():
        total += units * sum(amounts[1:], amounts[0])
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    shape: tuple[int, int]
    active: NDArray[np.bool_]
    is_first: NDArray[np.bool_]
    is_last: NDArray[np.bool_]
    layers: Bytes
    """Blocks of each stage, (N, S)."""
    kind_layers: tuple[Bytes, ...]
    """Of each layer kind, (N, S)."""
    tokens: Bytes
    """Tokens of one micro-batch on a rank: micro-batch size · ceil(sequence / cp), (N, 1)."""
    shard_group: Bytes
    """Ranks that share one copy of a dense tensor's states: dp_shard · cp."""
    replicate_group: Bytes
    expert_shard_group: Bytes
    """Ranks that share the states of an expert: shard group · tp / (ep · etp), at least 1."""
    live_chunks: Bytes
    """Micro-batch chunks whose activations a stage holds at its worst, (N, S); a chunk is layers / vpp blocks."""
    local: tuple[LocalTensor, ...]

    def elements(self, *, trainable: bool | None = None, expert: bool | None = None) -> Bytes:
        """Parameters of a rank before data-parallel sharding. [elements, (N, S)]"""
        chosen = (
            item
            for item in self.local
            if trainable in (None, item.tensor.trainable) and expert in (None, item.tensor.expert)
        )
        return add_up(((item.units, item.each, item.elements) for item in chosen), self.shape)

    def unit_elements(self, kind: int) -> Bytes:
        """Parameters of one block of a kind (kind >= 0), or of the stage's root group (-1). [elements, (N, S)]"""
        return add_up(self.one_unit(kind, lambda item: item.elements), self.shape)

    def one_unit(
        self, kind: int, of: Callable[[LocalTensor], Bytes | int]
    ) -> Iterator[tuple[Bytes, Bytes, Bytes | int]]:
        """Parts of one block of a kind (0 where a stage has none), or of the root (-1), for `add_up`."""
        held = (self.kind_layers[kind] > 0).astype(np.int64) if kind >= 0 else None
        for item in self.local:
            if item.unit == kind:
                yield (item.units if held is None else held, item.each, of(item))

    def largest_unit(self) -> Bytes:
        """Parameters of the largest block that a stage holds. [elements, (N, S)]"""
        sizes = [
            np.where(self.kind_layers[index] > 0, self.unit_elements(index), 0)
            for index in range(len(self.kind_layers))
        ]
        return np.maximum.reduce(sizes) if sizes else np.zeros(self.shape, dtype=np.int64)

    def largest_tensor(self) -> Bytes:
        """Elements of the largest trainable tensor on a stage. [elements, (N, S)]"""
        largest = np.zeros(self.shape, dtype=np.int64)
        for item in self.local:
            if item.tensor.trainable:
                np.maximum(largest, item.elements * (item.copies > 0), out=largest)
        return largest


def partition_of(scenario: Scenario) -> Partition:
    """Split the recipe's model over the layout's ranks.

    Uneven pipelines: `stage_layers` where the recipe gives them; stages of equal cost (nanotron); else the first
    (layers mod stages) stages take one block more.

    Source: Narayanan 2021 §2 (pipeline, tensor), Megatron-LM MoE README (expert groups).
    """
    recipe, layout = scenario.recipe, scenario.layout
    inventory = recipe.inventory
    stages = int(layout.pp.max())
    stage = np.arange(stages, dtype=np.int64).reshape(1, -1)
    active = stage < layout.pp
    is_first, is_last = np.broadcast_to(stage == 0, active.shape), stage == layout.pp - 1
    kind_layers = _kind_layers(recipe, layout, inventory, stage, active)
    layers = sum(kind_layers, np.zeros(active.shape, dtype=np.int64))
    shard_group = layout.dp_shard * layout.cp
    expert_group = np.maximum(shard_group * layout.tp // (layout.ep * layout.etp), 1)
    return Partition(
        shape=(len(scenario), stages),
        active=active,
        is_first=is_first,
        is_last=is_last,
        layers=layers,
        kind_layers=kind_layers,
        tokens=layout.micro_batch_size * ceil_div(layout.sequence_length, layout.cp),
        shard_group=shard_group,
        replicate_group=layout.dp_replicate,
        expert_shard_group=expert_group,
        live_chunks=live_chunks(recipe.schedule, stage, layout) * active,
        local=_local_tensors(inventory, layout, kind_layers, is_first & active, is_last & active),
    )


def _kind_layers(
    recipe: Recipe, layout: Layout, inventory: Inventory, stage: Bytes, active: NDArray[np.bool_]
) -> tuple[Bytes, ...]:
    """Blocks of each kind on each stage, (N, S), from where each stage's chunks start and end in the block order."""
    total = len(inventory.pattern)
    if recipe.stage_layers is not None:
        ends = np.cumsum(np.asarray(recipe.stage_layers, dtype=np.int64)).reshape(1, -1)
        spans = [(ends - np.asarray(recipe.stage_layers, dtype=np.int64), ends)]
    elif runs_modules(recipe) and recipe.schedule is not Schedule.INTERLEAVED:
        spans = [spans_by_cost(recipe, layout, total, active.shape[1])]
    elif len(inventory.kinds) == 1:
        return (np.where(active, _even_blocks(recipe, layout, total, stage), 0),)
    else:
        spans = _even_spans(recipe, layout, total, stage)
    counts = []
    for kind in range(len(inventory.kinds)):
        before = np.concatenate([[0], np.cumsum(np.asarray(inventory.pattern) == kind)]).astype(np.int64)
        held = sum((before[end] - before[start] for start, end in spans), np.zeros(active.shape, dtype=np.int64))
        counts.append(np.where(active, held, 0))
    return tuple(counts)


def _chunks_per_stage(recipe: Recipe, layout: Layout) -> Bytes:
    return np.where(recipe.schedule is Schedule.INTERLEAVED, layout.vpp, 1)


def _even_blocks(recipe: Recipe, layout: Layout, total: int, stage: Bytes) -> Bytes:
    """Blocks of each stage where all are of one kind: the lengths of `_even_spans` added up. [(N, S)]"""
    virtual = _chunks_per_stage(recipe, layout)
    base, extra = total // (layout.pp * virtual), total % (layout.pp * virtual)
    if not extra.any():
        return np.broadcast_to(base * virtual, (len(extra), stage.shape[1]))
    return base * virtual + np.clip(ceil_div(extra - stage, layout.pp), 0, virtual)


def _even_spans(recipe: Recipe, layout: Layout, total: int, stage: Bytes) -> list[tuple[Bytes, Bytes]]:
    """Where each stage's chunks start and end when blocks are spread evenly, one chunk a virtual stage."""
    chunks = layout.pp * _chunks_per_stage(recipe, layout)
    base, extra = total // chunks, total % chunks
    spans = []
    for virtual in range(int((chunks // layout.pp).max())):
        index = virtual * layout.pp + stage
        start = index * base + np.minimum(index, extra)
        size = np.where((index < chunks) & (virtual < chunks // layout.pp), base + (index < extra), 0)
        spans.append((np.minimum(start, total), np.minimum(start + size, total)))
    return spans


def spans_by_cost(recipe: Recipe, layout: Layout, total: int, stages: int) -> tuple[Bytes, Bytes]:
    """Where each stage starts and ends when stages are cut by the cost of their matrices, the head counted as a block.

    A stage is closed by the first block that lifts the running cost over its share.
    Source: nanotron models.base.build_model
    and get_block_compute_costs (4 · heads · head dim · hidden + 3 · ffn · hidden; vocabulary · hidden).
    """
    architecture = recipe.model.architecture
    assert architecture is not None
    h = architecture.hidden_size
    block = 4 * architecture.heads * architecture.head_dim * h + 3 * architecture.ffn_size * h
    whole = block * total + architecture.vocab_size * h
    ends = np.full((len(layout.pp), stages), total, dtype=np.int64)
    for depth in np.unique(layout.pp):
        closed, cut = [], 0
        for index in range(total):
            if (index + 1) * block * depth > whole * (cut + 1) and cut < depth - 1:
                cut += 1
                closed.append(index + 1)
        rows = layout.pp[:, 0] == depth
        ends[rows, : len(closed)] = closed
    return np.concatenate([np.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1), ends


def _local_tensors(
    inventory: Inventory,
    layout: Layout,
    kind_layers: tuple[Bytes, ...],
    first: NDArray[np.bool_],
    last: NDArray[np.bool_],
) -> tuple[LocalTensor, ...]:
    """Every tensor with its local dimensions and copies. Tied embeddings stand on both ends of a pipeline."""
    held: list[LocalTensor] = []
    dims_of = _LocalDims(layout)
    start, end, ends = (where.astype(np.int64) for where in (first, last, first | last))
    tied = not any(tensor.role == "head" and tensor.module == "lm_head" for tensor in inventory.last)
    for tensor in inventory.first:
        if tensor.role == EVENLY_SPREAD:
            share = ceil_div(tensor.shape[0], layout.tp * layout.pp)
            everywhere = np.broadcast_to(np.int64(1), first.shape) * (np.arange(first.shape[1]) < layout.pp)
            held.append(LocalTensor(tensor, (share,), everywhere, ONE, -1))
            continue
        on_both = tied and tensor.role == "embedding" and bool(inventory.last)
        held.append(LocalTensor(tensor, dims_of(tensor), ends if on_both else start, ONE * tensor.count, -1, True))
    held += [LocalTensor(tensor, dims_of(tensor), end, ONE * tensor.count, -1) for tensor in inventory.last]
    for index, kind in enumerate(inventory.kinds):
        held += _block_tensors(kind, index, layout, kind_layers[index], dims_of)
    return tuple(held)


def _block_tensors(
    kind: LayerKind, index: int, layout: Layout, blocks: Bytes, dims_of: _LocalDims
) -> list[LocalTensor]:
    held = []
    for tensor in kind.tensors:
        each = ceil_div(tensor.count, layout.ep) if tensor.expert else ONE * tensor.count
        held.append(LocalTensor(tensor, dims_of(tensor), blocks, each, index))
    return held


class _LocalDims:
    """Dimensions after tensor parallelism, rounded up where it does not divide (a padded vocabulary).

    Tensors of a block share most of their dimensions: each is divided once. A whole one is of shape (1, 1).
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[tuple[int, bool], Bytes] = {}

    def __call__(self, tensor: Tensor) -> tuple[Bytes, ...]:
        return tuple(
            self._divided(size, tensor.expert) if position == tensor.tensor_parallel_dim else ONE * size
            for position, size in enumerate(tensor.shape)
        )

    def _divided(self, size: int, expert: bool) -> Bytes:
        key = size, expert
        if key not in self._known:
            self._known[key] = ceil_div(size, self._layout.etp if expert else self._layout.tp)
        return self._known[key]
