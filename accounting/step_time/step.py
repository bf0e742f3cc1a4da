"""The one composition: blocks into stages, stages into a step, every second under one named term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accounting.facts.calibration import CALIBRATION, Calibration
from accounting.facts.dtypes import find_dtype
from accounting.partition import LocalTensor, Partition
from accounting.scenario import Scenario
from accounting.step_time import shards
from accounting.step_time.attention import core_backward_seconds, core_forward_seconds
from accounting.step_time.blocks import Block, Ends, block_times, end_times
from accounting.step_time.clock import Clock, clock_of
from accounting.step_time.elementwise import block_forward_seconds, embedding_seconds, loss_seconds
from accounting.step_time.matmul import product_seconds
from accounting.step_time.model_parallel import context_parallel, expert_parallel, tensor_parallel
from accounting.step_time.pipeline import Pipeline, exchange, pipeline_times
from accounting.step_time.recompute import recomputed
from accounting.step_time.timing import PARTS, TimeRow, Timing, unknown_timing
from accounting.step_time.traffic import Traffic
from accounting.step_time.update import (
    activation_offload_seconds,
    offloaded_update_seconds,
    parameter_offload_seconds,
    update_seconds,
)
from accounting.units import Floats

_MEASURED_MFU = (0.02, 0.65)
"""Outside of this no published 16-bit run lies that the constants were fitted on."""


def step_time(scenario: Scenario, partition: Partition, calibration: Calibration = CALIBRATION) -> Timing:
    """Seconds of one optimizer step with all its terms. All columns (N, 1).

    NaN wherever a machine fact it needs is unknown; all NaN where the model has no architecture.
    """
    architecture = scenario.recipe.model.architecture
    if architecture is None or not partition.kind_layers:
        return unknown_timing(len(scenario), "step time needs an architecture: a bare count or a tensor list has none")
    with np.errstate(invalid="ignore"):
        return _timing(_Step.of(clock_of(scenario, partition, architecture, calibration)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Blocks, ends and shards of the step and what follows from them."""

    clock: Clock
    blocks: tuple[Block, ...]
    ends: Ends
    sharded: tuple[shards.BlockShard, ...]
    weights: tuple[shards.Weights, ...]
    root: shards.Weights
    policy: shards.Policy
    groups: shards.Groups
    exchange: tuple[Floats, Traffic]
    pipeline: Pipeline
    held: tuple[Floats, ...]
    """Blocks of each kind in the slowest stage, (N, 1)."""
    first: Floats
    """1 where the slowest stage is the first."""
    last: Floats

    @classmethod
    def of(cls, clock: Clock) -> _Step:
        kinds = clock.scenario.recipe.inventory.kinds
        blocks = tuple(block_times(clock, unit, kind) for unit, kind in enumerate(kinds))
        policy, groups = shards.policy_of(clock), shards.groups_of(clock)
        weights = tuple(shards.weights_of(clock, _unit(clock, unit)) for unit in range(len(kinds)))
        sharded = tuple(
            shards.block_shard(
                clock,
                block,
                shards.gather_seconds(clock, weight, groups),
                shards.reduce_seconds(clock, weight, groups, policy),
                policy,
            )
            for block, weight in zip(blocks, weights, strict=True)
        )
        ends, moved, partition = end_times(clock), exchange(clock), clock.partition
        per_block = [
            block.forward + block.backward + shard.gather + shard.reduce
            for block, shard in zip(blocks, sharded, strict=True)
        ]
        stages = partition.is_first * ends.embedding + partition.is_last * (ends.head + ends.loss)
        for held, seconds in zip(partition.kind_layers, per_block, strict=True):
            stages = stages + held * seconds
        stages = np.where(partition.active, stages + moved[0], 0.0)
        pipeline = pipeline_times(clock, stages)
        return cls(
            clock=clock,
            blocks=blocks,
            ends=ends,
            sharded=sharded,
            weights=weights,
            root=shards.weights_of(clock, _unit(clock, -1)),
            policy=policy,
            groups=groups,
            exchange=moved,
            pipeline=pipeline,
            held=tuple(_at(held, pipeline.stage).astype(np.float64) for held in partition.kind_layers),
            first=_at(partition.is_first, pipeline.stage).astype(np.float64),
            last=_at(partition.is_last, pipeline.stage).astype(np.float64),
        )

    def over_blocks(self, value: Callable[[Block], Floats]) -> Floats:
        """A block's value summed over the slowest stage's blocks. [(N, 1)]"""
        zero = np.zeros_like(self.clock.tokens)
        return sum((held * value(block) for held, block in zip(self.held, self.blocks, strict=True)), zero)

    def over_shards(self, value: Callable[[shards.BlockShard], Floats]) -> Floats:
        """The same for the data-parallel part."""
        zero = np.zeros_like(self.clock.tokens)
        return sum((held * value(shard) for held, shard in zip(self.held, self.sharded, strict=True)), zero)


def _unit(clock: Clock, unit: int) -> tuple[LocalTensor, ...]:
    return tuple(item for item in clock.partition.local if item.unit == unit)


def _at(values: np.ndarray, stage: np.ndarray) -> np.ndarray:
    return np.take_along_axis(np.broadcast_to(values, (stage.shape[0], values.shape[1])), stage, axis=1)


def _micro_batch_rows(step: _Step) -> list[TimeRow]:
    """Terms of one micro-batch in the slowest stage, times the micro-batches."""
    m, ends = step.clock.micro_batches, step.ends
    again = step.over_blocks(lambda b: b.matmul_recompute + b.attention_recompute)
    rows = [
        TimeRow("matmul.forward", "compute", step.over_blocks(lambda b: b.matmul_forward), product_seconds),
        TimeRow("matmul.backward", "compute", step.over_blocks(lambda b: b.matmul_backward), product_seconds),
        TimeRow("attention.forward", "compute", step.over_blocks(lambda b: b.attention_forward), core_forward_seconds),
        TimeRow("attention.backward", "compute", step.over_blocks(lambda b: b.attention_backward), core_backward_seconds),
        TimeRow("recompute", "compute", again, recomputed),
        TimeRow("head", "compute", step.last * ends.head, product_seconds),
        TimeRow(
            "elementwise.forward", "memory_bound", step.over_blocks(lambda b: b.elementwise_forward), block_forward_seconds
        ),
        TimeRow(
            "elementwise.backward",
            "memory_bound",
            step.over_blocks(lambda b: b.elementwise_backward),
            block_forward_seconds,
        ),
        TimeRow(
            "elementwise.recompute", "memory_bound", step.over_blocks(lambda b: b.elementwise_recompute), recomputed
        ),
        TimeRow("embedding", "memory_bound", step.first * ends.embedding, embedding_seconds),
        TimeRow("gradients.accumulate", "memory_bound", accumulation(step), accumulation),
        TimeRow("loss", "memory_bound", step.last * ends.loss, loss_seconds),
        TimeRow("host.launch", "memory_bound", step.over_blocks(lambda b: b.host_stall), host_launch),
        TimeRow(
            "tensor_parallel", "exposed_communication", step.over_blocks(lambda b: b.tensor_parallel), tensor_parallel
        ),
        TimeRow(
            "context_parallel", "exposed_communication", step.over_blocks(lambda b: b.context_parallel), context_parallel
        ),
        TimeRow(
            "expert_parallel", "exposed_communication", step.over_blocks(lambda b: b.expert_parallel), expert_parallel
        ),
        TimeRow("pipeline.exchange", "exposed_communication", step.exchange[0], exchange),
        TimeRow("shards.gather", "exposed_communication", step.over_shards(lambda s: s.gather), shards.block_shard),
        TimeRow("shards.reduce", "exposed_communication", step.over_shards(lambda s: s.reduce), shards.block_shard),
    ]
    return [TimeRow(row.key, row.part, row.seconds * m, row.law) for row in rows]


def accumulation(step: _Step) -> Floats:
    """Adding a micro-batch's gradients to the accumulated ones where a rank holds them whole. [second, (N, 1)]

    (2·g + 2 B)·parameters/W; engines that reduce every micro-batch add only to their shard. Source: Megatron-LM main_grad.
    """
    clock, precision = step.clock, step.clock.scenario.recipe.precision
    weights = sum((held * (w.reduced + w.reduced_experts) for held, w in zip(step.held, step.weights, strict=True)), step.root.reduced)
    travelled = float(find_dtype(precision.reduce or precision.gradients or precision.parameters).bytes_per_element)
    held_bytes = float(find_dtype(precision.gradients or precision.parameters).bytes_per_element)
    shards_of = clock.partition.shard_group if step.policy.reduces_every_micro_batch and step.policy.sharded else 1
    return weights / travelled * (2 * held_bytes + 2.0) / shards_of / clock.memory_rate


def host_launch(clock: Clock) -> Floats:
    """Waiting of the device for kernels the host has not launched yet: max(0, host - device) per block. [second]

    Backward and recomputation launch in proportion. Source: constants by fit; VT-single's small models.
    """
    return clock.micro_batches * clock.engine.host_micro_batch_seconds * clock.device.host_factor


def _step_rows(step: _Step) -> list[TimeRow]:
    """Terms of a step that do not repeat with the micro-batches, the bubble and the offloading."""
    clock, engine = step.clock, step.clock.engine
    local = _local_parameters(step)
    gather, reduce = _once_a_step(step)
    m = clock.micro_batches
    fixed = engine.host_step_seconds * clock.device.host_factor * np.ones_like(clock.tokens)
    weights = sum((held * item.gathered for held, item in zip(step.held, step.weights, strict=True)), step.root.gathered)
    busy = step.over_blocks(lambda b: b.forward + b.backward) * engine.overlap
    parameter_moves = m * np.maximum(parameter_offload_seconds(clock, weights, 2) - busy, 0.0)
    blocks = sum(step.held, np.zeros_like(clock.tokens))
    return [
        TimeRow("pipeline.bubble", "pipeline_bubble", step.pipeline.bubble, pipeline_times),
        TimeRow("host.micro_batch", "memory_bound", host_launch(clock), host_launch),
        TimeRow("shards.gather_step", "exposed_communication", gather, shards.gather_seconds),
        TimeRow("shards.reduce_step", "exposed_communication", reduce, shards.reduce_seconds),
        TimeRow("optimizer.update", "optimizer", update_seconds(clock, local), update_seconds),
        TimeRow("optimizer.host", "optimizer", fixed, host_launch),
        TimeRow("offload.optimizer", "offload", offloaded_update_seconds(clock, local), offloaded_update_seconds),
        TimeRow("offload.parameters", "offload", parameter_moves, parameter_offload_seconds),
        TimeRow(
            "offload.activations",
            "offload",
            m * activation_offload_seconds(clock, blocks, busy),
            activation_offload_seconds,
        ),
    ]


def _local_parameters(step: _Step) -> Floats:
    """Trainable parameters the busiest rank steps on. [elements, (N, 1)]"""
    partition, stage = step.clock.partition, step.clock.scenario.recipe.zero_stage
    dense = partition.elements(trainable=True, expert=False).max(axis=1, keepdims=True).astype(np.float64)
    experts = partition.elements(trainable=True, expert=True).max(axis=1, keepdims=True).astype(np.float64)
    if not step.policy.sharded and stage == 0:
        return dense + experts
    return dense / partition.shard_group + experts / partition.expert_shard_group


def _once_a_step(step: _Step) -> tuple[Floats, Floats]:
    """(exposed gathers, exposed reductions) outside the blocks' windows. [second, (N, 1)]

    Per micro-batch engines: the root's own gather and reduction every micro-batch, and the first block's gather.
    Once-a-step engines: all gathers, and the reductions less what the last micro-batch's backward hides; the last
    bucket (one block) is always exposed.
    """
    clock, policy, groups = step.clock, step.policy, step.groups
    m = clock.micro_batches
    root_gather = shards.gather_seconds(clock, step.root, groups)
    root_reduce = shards.reduce_seconds(clock, step.root, groups, policy)
    stage_gather = root_gather + sum(
        (held * shards.gather_seconds(clock, item, groups) for held, item in zip(step.held, step.weights, strict=True)),
        np.zeros_like(clock.tokens),
    )
    stage_reduce = root_reduce + sum(
        (
            held * shards.reduce_seconds(clock, item, groups, policy)
            for held, item in zip(step.held, step.weights, strict=True)
        ),
        np.zeros_like(clock.tokens),
    )
    gather = m * root_gather if policy.gathers_per_micro_batch else policy.gathers_per_step * stage_gather
    if policy.reduces_every_micro_batch:
        return gather, m * root_reduce
    backward = step.over_blocks(lambda b: b.backward)
    hidden = np.minimum(clock.engine.overlap * backward, np.maximum(stage_reduce - root_reduce, 0.0))
    return gather, stage_reduce - hidden + clock.engine.contention * hidden


def _traffic(step: _Step) -> Traffic:
    """Bytes a device of the slowest stage sends in a step."""
    clock, policy, m = step.clock, step.policy, step.clock.micro_batches
    total = step.exchange[1].times(m)
    gathers = m * policy.gathers_per_micro_batch + policy.gathers_per_step
    root_gathers = np.where(policy.gathers_per_micro_batch > 0, m, 0) + policy.gathers_per_step
    reduces = m if policy.reduces_every_micro_batch else np.ones_like(m)
    for held, block, weights in zip(step.held, step.blocks, step.weights, strict=True):
        total = total + block.traffic.times(held * m)
        total = total + shards.gather_traffic(weights, step.groups).times(held * gathers)
        total = total + shards.reduce_traffic(weights, step.groups, policy).times(held * reduces)
    total = total + shards.gather_traffic(step.root, step.groups).times(root_gathers)
    return total + shards.reduce_traffic(step.root, step.groups, policy).times(reduces)


def _flops(step: _Step) -> tuple[Floats, Floats]:
    """(model, hardware) FLOP of a step over all devices. [FLOP, (N, 1)]

    3 × the forward of every block and of the head (2 × for a frozen weight is not counted apart: the definition is
    6·N + 12·L·h·s a token); hardware adds what is computed again. Source: Chowdhery 2022 appendix B; Korthikanti 2022.
    """
    clock, partition = step.clock, step.clock.partition
    ranks = clock.scenario.layout.count / clock.scenario.layout.pp
    forward, again = partition.is_last.any(axis=1, keepdims=True) * step.ends.head_flops, np.zeros_like(clock.tokens)
    for held, block in zip(partition.kind_layers, step.blocks, strict=True):
        layers = held.sum(axis=1, keepdims=True)
        forward = forward + layers * block.model_flops
        again = again + layers * block.recomputed_flops
    model = 3 * forward * clock.micro_batches * ranks
    return model, model + again * clock.micro_batches * ranks


def _timing(step: _Step) -> Timing:
    clock, layout = step.clock, step.clock.scenario.layout
    rows = [*_micro_batch_rows(step), *_step_rows(step)]
    busy = sum((row.seconds for row in rows), np.zeros_like(clock.tokens))
    nodes = np.maximum(layout.count / clock.scenario.machine.devices_per_node, 1.0)
    rows.append(TimeRow("jitter", "exposed_communication", busy * clock.engine.jitter * np.log2(nodes), jitter))
    shape = clock.tokens.shape
    rows = [TimeRow(row.key, row.part, np.broadcast_to(row.seconds, shape), row.law) for row in rows]
    zero = np.zeros(shape)
    parts = {part: sum((row.seconds for row in rows if row.part == part), zero) for part in PARTS}
    seconds = sum(parts.values(), zero)
    model, hardware = _flops(step)
    peak = layout.count * clock.scenario.machine.peak_flops * seconds
    tokens = layout.tokens_per_step / seconds
    return Timing(
        step_seconds=seconds,
        parts=parts,
        lines=tuple(rows),
        model_flops=model,
        hardware_flops=hardware,
        mfu=model / peak,
        hfu=hardware / peak,
        tokens_per_second=tokens,
        tokens_per_second_per_device=tokens / layout.count,
        traffic_bytes=_traffic(step).rounded(len(clock.scenario)),
        band=(seconds * clock.device.band_low, seconds * clock.device.band_high),
        slowest_stage=step.pipeline.stage,
        warnings=_warnings(clock, model / peak),
    )


def jitter(clock: Clock) -> Floats:
    """Waiting for the slowest of many nodes: a share of the step for each doubling of the nodes. [second, (N, 1)]"""
    return clock.engine.jitter * np.log2(np.maximum(clock.scenario.layout.count / 8.0, 1.0))


def _warnings(clock: Clock, mfu: Floats) -> tuple[str, ...]:
    said = []
    low, high = _MEASURED_MFU
    if clock.low_precision is None and bool(np.any((mfu < low) | (mfu > high))):
        said.append(
            f"predicted MFU {float(np.nanmin(mfu)):.1%} to {float(np.nanmax(mfu)):.1%} leaves the measured band of "
            f"{low:.0%} to {high:.0%}: read this step time as a rough one"
        )
    return tuple(said)
