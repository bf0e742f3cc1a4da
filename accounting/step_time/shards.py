"""Data-parallel collectives: what each engine and ZeRO stage gathers and reduces, how often, and what stays exposed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accounting.facts.dtypes import find_dtype
from accounting.partition import LocalTensor
from accounting.step_time.blocks import Block
from accounting.step_time.clock import Clock
from accounting.step_time.network import Collective, Group, collective_seconds, group_of, wire_bytes
from accounting.step_time.traffic import Traffic
from accounting.units import Floats
from accounting.vocabulary import Engine

_FSDP = (Engine.FSDP1, Engine.FSDP2)
_STAGE_GATHERING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When an engine moves what. One row per engine and stage, from the engines' documentation."""

    gathers_per_micro_batch: int
    """All-gathers of the parameters a micro-batch: 2 where they are freed after the forward."""
    root_gathers_per_micro_batch: int
    """The same for embeddings, final norm and head; FSDP keeps its root unit from the forward to the backward."""
    gathers_per_step: int
    reduces_every_micro_batch: bool
    sharded: bool
    """Reduce-scatter over the shard group (and all-reduce over the replicas), else all-reduce over all."""


def policy_of(clock: Clock) -> Policy:
    """The row for the recipe's engine and stage.

    Stage 3: gather, gather, reduce-scatter a micro-batch. FSDP stage 2 keeps what the forward gathered. DeepSpeed
    stage 2 reduces every micro-batch; Megatron and DeepSpeed stage 1 once a step. DDP reduces every micro-batch unless
    `no_sync`; Megatron without the distributed optimizer once a step.
    Source: Rajbhandari 2020 §7; engine documentation.
    """
    recipe = clock.scenario.recipe
    engine, stage, quiet = recipe.engine, recipe.zero_stage, recipe.options.no_sync
    if engine in _FSDP or stage == _STAGE_GATHERING:
        freed = stage == _STAGE_GATHERING and recipe.options.reshard_after_forward is not False
        return Policy(
            gathers_per_micro_batch=2 if freed else 1,
            root_gathers_per_micro_batch=2 if freed and engine not in _FSDP else 1,
            gathers_per_step=0,
            reduces_every_micro_batch=not (quiet and engine in _FSDP),
            sharded=True,
        )
    if stage == 0:
        every = engine is Engine.DDP and not quiet
        return Policy(
            gathers_per_micro_batch=0,
            root_gathers_per_micro_batch=0,
            gathers_per_step=0,
            reduces_every_micro_batch=every,
            sharded=False,
        )
    every = engine is Engine.DEEPSPEED and stage == 2  # noqa: PLR2004 - ZeRO stage 2
    return Policy(
        gathers_per_micro_batch=0,
        root_gathers_per_micro_batch=0,
        gathers_per_step=1,
        reduces_every_micro_batch=every,
        sharded=True,
    )


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of one block (or one end) on a rank before data-parallel sharding, (N, 1) each."""

    gathered: Floats
    reduced: Floats
    gathered_experts: Floats
    reduced_experts: Floats


def weights_of(clock: Clock, items: tuple[LocalTensor, ...]) -> Weights:
    """What a gather moves in the compute dtype (a quantised base in its own), and a reduction of the trainable part."""
    recipe = clock.scenario.recipe
    reduce_bytes = _bytes(recipe.precision.reduce or recipe.precision.gradients or recipe.precision.parameters)
    gather_bytes = _gather_bytes(clock)
    base = float(find_dtype(recipe.adapter.base_dtype).bytes_per_element) if recipe.adapter else gather_bytes
    zero = np.zeros_like(clock.tokens)
    gathered, reduced, gathered_experts, reduced_experts = zero, zero, zero, zero
    for item in items:
        copies = np.ceil(item.tensor.count / clock.scenario.layout.ep) if item.tensor.expert else item.tensor.count
        elements = item.elements * copies
        wide = elements * (base if item.tensor.quantisable and not item.tensor.trainable else gather_bytes)
        narrow = elements * (reduce_bytes if item.tensor.trainable else 0.0)
        if item.tensor.expert:
            gathered_experts, reduced_experts = gathered_experts + wide, reduced_experts + narrow
        else:
            gathered, reduced = gathered + wide, reduced + narrow
    return Weights(gathered, reduced, gathered_experts, reduced_experts)


def _bytes(dtype: str) -> float:
    return float(find_dtype(dtype).bytes_per_element)


def _gather_bytes(clock: Clock) -> float:
    recipe = clock.scenario.recipe
    if clock.low_precision is not None:
        return 1.0 if recipe.options.enable_fsdp_float8_all_gather else 2.0
    return _bytes(recipe.precision.compute)


@dataclass(frozen=True, slots=True)
class Groups:
    shard: Group
    replicate: Group
    expert_shard: Group
    whole: Group


def groups_of(clock: Clock) -> Groups:
    """The data-parallel groups and where their members stand."""
    layout, partition = clock.scenario.layout, clock.partition
    whole = layout.data_parallel * layout.cp
    return Groups(
        shard=group_of(clock, partition.shard_group, layout.tp),
        replicate=group_of(clock, layout.dp_replicate, layout.tp * partition.shard_group),
        expert_shard=group_of(clock, partition.expert_shard_group, layout.ep * layout.etp),
        whole=group_of(clock, whole, layout.tp),
    )


def gather_seconds(clock: Clock, weights: Weights, groups: Groups) -> Floats:
    """One all-gather of these weights. [second, (N, 1)]"""
    dense = collective_seconds(clock, Collective.ALL_GATHER, weights.gathered, groups.shard)
    experts = collective_seconds(clock, Collective.ALL_GATHER, weights.gathered_experts, groups.expert_shard)
    return (dense + experts) / clock.engine.link_efficiency


def reduce_seconds(clock: Clock, weights: Weights, groups: Groups, policy: Policy) -> Floats:
    """One reduction of their gradients: reduce-scatter then all-reduce over the copies, or one all-reduce. [second]"""
    slow = clock.engine.link_efficiency
    if not policy.sharded:
        whole = collective_seconds(
            clock, Collective.ALL_REDUCE, weights.reduced + weights.reduced_experts, groups.whole
        )
        return whole / slow
    seconds = collective_seconds(clock, Collective.REDUCE_SCATTER, weights.reduced, groups.shard)
    seconds = seconds + collective_seconds(
        clock, Collective.REDUCE_SCATTER, weights.reduced_experts, groups.expert_shard
    )
    share = weights.reduced / groups.shard.size + weights.reduced_experts / groups.expert_shard.size
    return (seconds + collective_seconds(clock, Collective.ALL_REDUCE, share, groups.replicate)) / slow


def gather_traffic(weights: Weights, groups: Groups) -> Traffic:
    """Of one all-gather. [byte per device]"""
    return Traffic(
        all_gather=wire_bytes(Collective.ALL_GATHER, weights.gathered, groups.shard)
        + wire_bytes(Collective.ALL_GATHER, weights.gathered_experts, groups.expert_shard)
    )


def reduce_traffic(weights: Weights, groups: Groups, policy: Policy) -> Traffic:
    """Of one reduction. [byte per device]"""
    if not policy.sharded:
        whole = wire_bytes(Collective.ALL_REDUCE, weights.reduced + weights.reduced_experts, groups.whole)
        return Traffic(all_reduce=whole)
    share = weights.reduced / groups.shard.size + weights.reduced_experts / groups.expert_shard.size
    return Traffic(
        reduce_scatter=wire_bytes(Collective.REDUCE_SCATTER, weights.reduced, groups.shard)
        + wire_bytes(Collective.REDUCE_SCATTER, weights.reduced_experts, groups.expert_shard),
        all_reduce=wire_bytes(Collective.ALL_REDUCE, share, groups.replicate),
    )


@dataclass(frozen=True, slots=True)
class Moves:
    """One gather and one reduction of a block's (or an end's) weights, (N, 1)."""

    weights: Weights
    gather: Floats
    """[second]"""
    reduce: Floats
    """[second]"""


def moves_of(clock: Clock, items: tuple[LocalTensor, ...], groups: Groups, policy: Policy) -> Moves:
    """Bytes and seconds of moving these tensors once."""
    weights = weights_of(clock, items)
    gathers = policy.gathers_per_micro_batch + policy.gathers_per_step
    gather = gather_seconds(clock, weights, groups) if gathers else np.zeros_like(clock.tokens)
    return Moves(weights, gather, reduce_seconds(clock, weights, groups, policy))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShard:
    """Data-parallel time that one micro-batch through one block adds, (N, 1)."""

    moves: Moves
    gather: Floats
    """Exposed. [second]"""
    reduce: Floats
    """Exposed. [second]"""


def block_shard(clock: Clock, block: Block, moves: Moves, policy: Policy) -> BlockShard:
    """What a block's own gathers and reductions add to a micro-batch. [second, (N, 1)]

    forward:  max(0, gather - ρ·forward), the next block's gather beside this one's computation
    backward: max(0, gather + reduce - ρ·backward); hidden collectives slow the computation by c of their time.
    Source: Zhao 2023 (FSDP) §3.3; ρ and c by fit.
    """
    engine, nothing = clock.engine, np.zeros_like(clock.tokens)
    forward = moves.gather if policy.gathers_per_micro_batch else nothing
    again = moves.gather if policy.gathers_per_micro_batch > 1 else nothing
    back = moves.reduce if policy.reduces_every_micro_batch else nothing
    if forward is nothing and back is nothing:
        return BlockShard(moves=moves, gather=nothing, reduce=nothing)
    out = np.maximum(forward - engine.overlap * block.forward, 0.0)
    late = np.maximum(again + back - engine.overlap * block.backward, 0.0)
    slowed = engine.contention * (forward + again + back - out - late)
    share = np.where(again + back > 0, back / np.maximum(again + back, 1e-30), 0.0)
    return BlockShard(moves=moves, gather=out + late * (1 - share) + slowed, reduce=late * share)
