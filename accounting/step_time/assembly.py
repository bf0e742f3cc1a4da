"""Blocks, ends and shards put together into the slowest pipeline stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.partition import LocalTensor
from accounting.step_time import shards
from accounting.step_time.blocks import Block, Ends, block_times, end_times
from accounting.step_time.clock import Clock
from accounting.step_time.once import local_parameters, once_a_step
from accounting.step_time.pipeline import Pipeline, exchange, pipeline_times
from accounting.step_time.traffic import Traffic
from accounting.step_time.vocabulary_parallel import Exchange, tied_exchange
from accounting.units import Floats


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one optimizer step is made of. Columns (N, 1)."""

    clock: Clock
    blocks: tuple[Block, ...]
    ends: Ends
    sharded: tuple[shards.BlockShard, ...]
    """Data-parallel part of one block of each kind."""
    root: shards.Moves
    """Embeddings, final norm and head, where the stage has them."""
    policy: shards.Policy
    groups: shards.Groups
    exchange: tuple[Floats, Traffic]
    pipeline: Pipeline
    tied: Exchange
    """Once a step."""
    held: tuple[Floats, ...]
    """Blocks of each kind in the slowest stage."""
    first: Floats
    """1 where the slowest stage is the first."""
    last: Floats

    @cached_property
    def stepped(self) -> Floats:
        """Trainable parameters the busiest rank steps on."""
        return local_parameters(self)

    @cached_property
    def once(self) -> tuple[Floats, Floats]:
        """Exposed gathers and reductions outside the blocks' windows. [second]"""
        return once_a_step(self)

    def over_blocks(self, value: Callable[[Block], Floats]) -> Floats:
        """A block's value summed over the slowest stage's blocks."""
        return self._summed([value(block) for block in self.blocks])

    def over_shards(self, value: Callable[[shards.BlockShard], Floats]) -> Floats:
        """The same for the data-parallel part."""
        return self._summed([value(shard) for shard in self.sharded])

    def _summed(self, values: list[Floats]) -> Floats:
        total = self.held[0] * values[0]
        for held, value in zip(self.held[1:], values[1:], strict=True):
            total = total + held * value
        return total

    @property
    def stage_blocks(self) -> Floats:
        """Blocks of the slowest stage."""
        return self._summed([np.ones_like(self.clock.tokens) for _ in self.blocks])


def assemble(clock: Clock, timed: tuple[tuple[Block, ...], Ends] | None = None) -> Step:
    """Time every block kind once, add up the stages, (N, S), and keep what the slowest one holds, (N, 1).

    `timed` are the blocks and ends, where somebody has timed them already.
    """
    kinds, partition = clock.scenario.recipe.inventory.kinds, clock.partition
    if timed is None:
        timed = tuple(block_times(clock, unit, kind) for unit, kind in enumerate(kinds)), end_times(clock)
    blocks, ends = timed
    policy = shards.policy_of(clock)
    groups = shards.groups_of(clock, policy)
    sharded = tuple(
        shards.block_shard(
            clock, block, shards.moves_of(clock, shards.block_elements(clock, unit), groups, policy), policy
        )
        for unit, block in enumerate(blocks)
    )
    moved = exchange(clock)
    stages = partition.is_first * ends.first + partition.is_last * ends.last
    for held, block, shard in zip(partition.kind_layers, blocks, sharded, strict=True):
        stages = stages + held * (block.forward + block.backward + shard.gather + shard.reduce)
    stages = np.where(partition.active, stages + moved[0], 0.0)
    pipeline = pipeline_times(clock, stages)
    return Step(
        clock=clock,
        blocks=blocks,
        ends=ends,
        sharded=sharded,
        root=shards.moves_of(clock, _root_elements(clock, pipeline.stage), groups, policy),
        policy=policy,
        groups=groups,
        exchange=moved,
        pipeline=pipeline,
        tied=tied_exchange(clock),
        held=tuple(_at(held, pipeline.stage).astype(np.float64) for held in partition.kind_layers),
        first=_at(partition.is_first, pipeline.stage).astype(np.float64),
        last=_at(partition.is_last, pipeline.stage).astype(np.float64),
    )


def _root_elements(clock: Clock, stage: NDArray[np.int64]) -> list[tuple[LocalTensor, Floats]]:
    """Embeddings, final norm and head that a stage holds. [elements, (N, 1)]"""
    return [
        (item, (item.elements * _at(item.copies, stage)).astype(np.float64))
        for item in clock.partition.local
        if item.unit < 0
    ]


def _at(values: NDArray[Any], stage: NDArray[np.int64]) -> NDArray[Any]:
    if values.shape[1] == 1:
        return values
    return np.take_along_axis(np.broadcast_to(values, (stage.shape[0], values.shape[1])), stage, axis=1)
