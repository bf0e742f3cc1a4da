"""What a rank stores of the trainable tensors, and what its optimizer steps on, by the engine's own cut."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from accounting.facts.dtypes import itemsize
from accounting.facts.frameworks import DEEPSPEED
from accounting.memory.flat import FlatOrder, sub_groups
from accounting.memory.sharding import (
    PADDED_WHOLE,
    Cut,
    Law,
    Piece,
    flat_pieces,
    law_of,
    row_pieces,
    stored_elements,
    tensor_pieces,
    whole_pieces,
)
from accounting.memory.wrapped import Unit, Wrapping, alignment_elements, flat_units, shard_pieces, slice_pieces
from accounting.optimizer_laws import ModelFacts, TensorView
from accounting.partition import LocalTensor, Partition, partition_of
from accounting.scenario import Layout, Recipe, Scenario
from accounting.units import Bytes, ceil_div


class HeldTensors:
    """The trainable tensors of a scenario as one rank of each stage holds them."""

    def __init__(self, scenario: Scenario, partition: Partition | None = None, shard_rank: Bytes | None = None) -> None:
        self.scenario = scenario
        self.shard_rank = shard_rank
        """Which rank of the shard group this is about, (N, 1); None = the one that holds most."""
        self.recipe: Recipe = scenario.recipe
        self.layout: Layout = scenario.layout
        self.partition = partition_of(scenario) if partition is None else partition
        self.law: Law = law_of(scenario.recipe.engine, scenario.recipe.zero_stage)
        self.zero: Bytes = np.zeros(self.partition.shape, dtype=np.int64)

    @cached_property
    def trainable(self) -> list[LocalTensor]:
        """Tensors that get a gradient."""
        return [item for item in self.partition.local if item.tensor.trainable]

    @cached_property
    def frozen(self) -> list[LocalTensor]:
        """Tensors that get none."""
        return [item for item in self.partition.local if not item.tensor.trainable]

    @cached_property
    def trainable_elements(self) -> Bytes:
        """Trainable elements of a rank before data-parallel sharding. [(N, S)]"""
        return self.partition.elements(trainable=True)

    def stored(self, *, divided: bool) -> list[Piece]:
        """Arrays of the trainable tensors as a rank stores them, whole or its part of them."""
        return self.stored_parts if divided else self.stored_whole

    @cached_property
    def stored_parts(self) -> list[Piece]:
        """A rank's part of the trainable tensors."""
        return self._stored(divided=True)

    @cached_property
    def stored_whole(self) -> list[Piece]:
        """The trainable tensors undivided, padded where the engine pads."""
        return self._stored(divided=False)

    def _stored(self, *, divided: bool) -> list[Piece]:
        items, cut = self.trainable, self.law.cut
        if cut in PADDED_WHOLE:
            return flat_pieces(cut, items, self.partition, divided=divided)
        if not divided or cut in (Cut.NONE, Cut.EVEN):
            return whole_pieces(items)
        if cut is Cut.DIM0:
            return row_pieces(items, self.partition)
        if cut is Cut.TENSOR:
            return tensor_pieces(items, self.partition)
        return shard_pieces(self.units, self.wrapping)

    @cached_property
    def state_pieces(self) -> list[Piece]:
        """What the optimizer of a rank steps on; the rank is `shard_rank`, else the first of the group."""
        cut, rank = self.law.cut, np.zeros((1, 1), dtype=np.int64) if self.shard_rank is None else self.shard_rank
        if not self.law.states or cut in (Cut.NONE, Cut.EVEN):
            return whole_pieces(self.trainable)
        if cut is Cut.DIM0:
            return row_pieces(self.trainable, self.partition, rank)
        if cut is Cut.UNIT and self.recipe.options.use_orig_params:
            early = self.recipe.optimizer.allocated_at_init
            return slice_pieces(self.units, self.wrapping, rank, empty=early)
        if cut is Cut.TENSOR:
            return self._sub_group_pieces()
        return self.stored(divided=True)

    def _sub_group_pieces(self) -> list[Piece]:
        """DeepSpeed stage 3 steps on flat sub-groups: of one length but for the remainder, which the first takes."""
        size = self.recipe.options.sub_group_size or DEEPSPEED.sub_group_size
        pieces = []
        for order in self.flat_orders:
            total = stored_elements(tensor_pieces(order.items, self.partition), self.partition.shape)
            groups = np.maximum(sub_groups(order, size), total > 0)
            each = total // np.maximum(groups, 1)
            pieces.append(Piece((total - each * np.maximum(groups - 1, 0),), (groups > 0).astype(np.int64), None))
            pieces.append(Piece((each,), np.maximum(groups - 1, 0), None))
        return pieces

    @cached_property
    def flat_orders(self) -> list[FlatOrder]:
        """Dense tensors and experts as DeepSpeed flattens them, each over its own group."""
        orders = []
        for expert, ways in ((False, self.partition.shard_group), (True, self.partition.expert_shard_group)):
            members = [item for item in self.trainable if item.tensor.expert is expert]
            if members:
                orders.append(FlatOrder(members, self.partition, self.layout, self.recipe.inventory.pattern, ways))
        return orders

    @cached_property
    def wrapping(self) -> Wrapping:
        """How FSDP1 flattens: aligned to its lowest precision with original parameters; no cut where nothing shards."""
        recipe, shard = self.recipe, self.partition.shard_group
        original = recipe.options.use_orig_params
        lowest = min(itemsize(recipe.precision.parameters), itemsize(recipe.precision.activations))
        copies = self.partition.replicate_group if original else np.ones_like(shard)
        return Wrapping(
            alignment=alignment_elements(lowest, original_parameters=original),
            ways=shard,
            padded_to=np.where(shard > 1, shard, copies),
        )

    @cached_property
    def units(self) -> list[Unit]:
        """FSDP1's flat parameters of the trainable tensors."""
        return flat_units(self.trainable, self.partition, self.wrapping)

    @cached_property
    def optimizer_views(self) -> list[tuple[TensorView, Piece]]:
        """The arrays the optimizer of a rank sees, and the pieces they are."""
        architecture = self.recipe.model.architecture
        facts = ModelFacts(
            hidden_size=architecture.hidden_size if architecture else 0,
            heads=architecture.heads if architecture else 1,
            elements=self.recipe.inventory.trainable_parameters,
        )
        views = []
        for piece in self.state_pieces:
            if piece.item is None:
                views.append((TensorView(dims=piece.dims, model=facts), piece))
            else:
                whole = piece.item.dims if self.law.cut is Cut.DIM0 else None
                views.append((TensorView.of(piece.item.tensor, piece.dims, facts, whole), piece))
        return views

    def held_bytes(self, *, divided: bool, dtype: str | None) -> Bytes:
        """Bytes of the trainable parameters in a dtype, divided or whole; 0 where it is None. [byte, (N, S)]"""
        if dtype is None:
            return self.zero
        total = stored_elements(self.stored(divided=divided), self.partition.shape) * itemsize(dtype)
        return self.evenly(total) if divided and self.law.cut is Cut.EVEN else total

    def evenly(self, total: Bytes) -> Bytes:
        """A total over the shard group, rounded up. [same unit]"""
        return ceil_div(total, self.partition.shard_group)
