"""Data-parallel collectives: what each engine and ZeRO stage gathers and reduces, how often, and what stays exposed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accounting.facts.dtypes import find_dtype
from accounting.partition import LocalTensor
from accounting.step_time.blocks import Block
from accounting.step_time.clock import Clock
from accounting.step_time.network import Collective, Group, collective_seconds, group_of, nobody, traffic_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What a rank holds of one block (or one end) before data-parallel sharding, (N, 1) each."""

    gathered: Floats
    """[byte] in the dtype a gather moves."""
    reduced: Floats
    """[byte] in the dtype a reduction moves."""
    gathered_experts: Floats | None
    """None where the model has no experts."""
    reduced_experts: Floats | None
    trainable: Floats
    """[elements]"""
    trainable_experts: Floats | None


def weights_of(clock: Clock, held: list[tuple[LocalTensor, Floats]]) -> Weights:
    """What a gather moves in the compute dtype (a quantised base in its own), and a reduction of the trainable part.

    `held` pairs tensors with their elements on a rank, (N, 1).
    """
    recipe = clock.scenario.recipe
    narrow = _bytes(recipe.precision.reduce or recipe.precision.gradients or recipe.precision.parameters)
    wide = _gather_bytes(clock)
    base = float(find_dtype(recipe.adapter.base_dtype).bytes_per_element) if recipe.adapter else wide

    def total(*, expert: bool) -> tuple[Floats, Floats]:
        gathered = trainable = np.zeros_like(clock.tokens)
        for item, elements in held:
            if item.tensor.expert is expert:
                kept = item.tensor.quantisable and not item.tensor.trainable
                gathered = gathered + elements * (base if kept else wide)
                trainable = trainable + elements if item.tensor.trainable else trainable
        return gathered, trainable

    gathered, trainable = total(expert=False)
    if not any(item.tensor.expert for item, _ in held):
        experts: tuple[Floats | None, Floats | None] = (None, None)
    else:
        experts = total(expert=True)
    return Weights(
        gathered=gathered,
        reduced=trainable * narrow,
        gathered_experts=experts[0],
        reduced_experts=None if experts[1] is None else experts[1] * narrow,
        trainable=trainable,
        trainable_experts=experts[1],
    )


def block_elements(clock: Clock, unit: int) -> list[tuple[LocalTensor, Floats]]:
    """Tensors of one block of a kind with their elements on a rank. [elements, (N, 1)]"""
    found = []
    for item in clock.partition.local:
        if item.unit == unit:
            copies = np.ceil(item.tensor.count / clock.scenario.layout.ep) if item.tensor.expert else item.tensor.count
            found.append((item, (item.elements * copies).astype(np.float64)))
    return found


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
    """Shards and replicas together."""
    whole_experts: Group


def groups_of(clock: Clock, policy: Policy) -> Groups:
    """The data-parallel groups the policy uses and where their members stand."""
    layout, partition = clock.scenario.layout, clock.partition
    none, spread = nobody(clock), layout.ep * layout.etp
    copies, mixed = layout.dp_replicate, clock.architecture.moe is not None
    if policy.sharded:
        return Groups(
            shard=group_of(clock, partition.shard_group, layout.tp),
            replicate=group_of(clock, copies, layout.tp * partition.shard_group),
            expert_shard=group_of(clock, partition.expert_shard_group, spread) if mixed else none,
            whole=none,
            whole_experts=none,
        )
    return Groups(
        shard=none,
        replicate=none,
        expert_shard=none,
        whole=group_of(clock, copies * partition.shard_group, layout.tp),
        whole_experts=group_of(clock, copies * partition.expert_shard_group, spread) if mixed else none,
    )


def _over_both(
    clock: Clock, collective: Collective, sizes: tuple[Floats, Floats | None], groups: tuple[Group, Group]
) -> Floats:
    """Seconds of one collective over the dense part and one over the experts' part."""
    seconds = collective_seconds(clock, collective, sizes[0], groups[0])
    return seconds if sizes[1] is None else seconds + collective_seconds(clock, collective, sizes[1], groups[1])


def gather_seconds(clock: Clock, weights: Weights, groups: Groups) -> Floats:
    """One all-gather of these weights. [second, (N, 1)]"""
    sizes = (weights.gathered, weights.gathered_experts)
    return _over_both(clock, Collective.ALL_GATHER, sizes, (groups.shard, groups.expert_shard)) / (
        clock.engine.link_efficiency
    )


def reduce_seconds(clock: Clock, weights: Weights, groups: Groups, policy: Policy) -> Floats:
    """One reduction of their gradients: reduce-scatter then all-reduce over the copies, or one all-reduce. [second]

    FSDP reduces one block over the copies beside the next one's scatter, on a stream of its own: the longer counts.
    """
    sizes = (weights.reduced, weights.reduced_experts)
    if not policy.sharded:
        everyone = (groups.whole, groups.whole_experts)
        return _over_both(clock, Collective.ALL_REDUCE, sizes, everyone) / clock.engine.link_efficiency
    seconds = _over_both(clock, Collective.REDUCE_SCATTER, sizes, (groups.shard, groups.expert_shard))
    copies = collective_seconds(clock, Collective.ALL_REDUCE, _shard_bytes(weights, groups), groups.replicate)
    beside = clock.scenario.recipe.engine in _FSDP
    both = np.maximum(seconds, copies) if beside else seconds + copies
    return both / clock.engine.link_efficiency


def _shard_bytes(weights: Weights, groups: Groups) -> Floats:
    share = weights.reduced / groups.shard.size
    experts = weights.reduced_experts
    return share if experts is None else share + experts / groups.expert_shard.size


def gather_traffic(weights: Weights, groups: Groups) -> Traffic:
    """Of one all-gather. [byte per device]"""
    moved = traffic_of(Collective.ALL_GATHER, weights.gathered, groups.shard)
    if weights.gathered_experts is not None:
        moved = moved + traffic_of(Collective.ALL_GATHER, weights.gathered_experts, groups.expert_shard)
    return moved


def reduce_traffic(weights: Weights, groups: Groups, policy: Policy) -> Traffic:
    """Of one reduction. [byte per device]"""
    experts = weights.reduced_experts
    if not policy.sharded:
        whole = traffic_of(Collective.ALL_REDUCE, weights.reduced, groups.whole)
        return whole if experts is None else whole + traffic_of(Collective.ALL_REDUCE, experts, groups.whole_experts)
    moved = traffic_of(Collective.REDUCE_SCATTER, weights.reduced, groups.shard)
    if experts is not None:
        moved = moved + traffic_of(Collective.REDUCE_SCATTER, experts, groups.expert_shard)
    return moved + traffic_of(Collective.ALL_REDUCE, _shard_bytes(weights, groups), groups.replicate)


@dataclass(frozen=True, slots=True)
class Moves:
    """One gather and one reduction of a block's (or an end's) weights, (N, 1)."""

    weights: Weights
    gather: Floats
    """[second]"""
    reduce: Floats
    """[second]"""


def moves_of(clock: Clock, held: list[tuple[LocalTensor, Floats]], groups: Groups, policy: Policy) -> Moves:
    """Bytes and seconds of moving these tensors once."""
    weights = weights_of(clock, held)
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
