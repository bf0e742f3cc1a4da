"""Every second of the step under one named term, with the function that says how it is computed."""

from __future__ import annotations

import numpy as np

from accounting.facts.dtypes import find_dtype
from accounting.step_time import shards
from accounting.step_time.assembly import Step
from accounting.step_time.attention import core_backward_seconds, core_forward_seconds
from accounting.step_time.clock import Clock
from accounting.step_time.elementwise import block_forward_seconds, embedding_seconds, loss_seconds
from accounting.step_time.matmul import product_seconds
from accounting.step_time.model_parallel import context_parallel, expert_parallel, tensor_parallel
from accounting.step_time.pipeline import exchange, pipeline_times
from accounting.step_time.recompute import recomputed
from accounting.step_time.timing import TimeRow
from accounting.step_time.update import (
    activation_offload_seconds,
    offloaded_update_seconds,
    parameter_offload_seconds,
    update_seconds,
)
from accounting.units import Floats

_MOVES = "exposed_communication"


def micro_batch_rows(step: Step) -> list[TimeRow]:
    """Terms of one micro-batch in the slowest stage, times the micro-batches."""
    rows = [*_compute_rows(step), *_memory_rows(step), *_communication_rows(step)]
    return [TimeRow(row.key, row.part, row.seconds * step.clock.micro_batches, row.law) for row in rows]


def _compute_rows(step: Step) -> list[TimeRow]:
    again = step.over_blocks(lambda b: b.matmul_recompute + b.attention_recompute)
    return [
        TimeRow("matmul.forward", "compute", step.over_blocks(lambda b: b.matmul_forward), product_seconds),
        TimeRow("matmul.backward", "compute", step.over_blocks(lambda b: b.matmul_backward), product_seconds),
        TimeRow("attention.forward", "compute", step.over_blocks(lambda b: b.attention_forward), core_forward_seconds),
        TimeRow(
            "attention.backward", "compute", step.over_blocks(lambda b: b.attention_backward), core_backward_seconds
        ),
        TimeRow("recompute", "compute", again, recomputed),
        TimeRow("head", "compute", step.last * step.ends.head, product_seconds),
    ]


def _memory_rows(step: Step) -> list[TimeRow]:
    part, law = "memory_bound", block_forward_seconds
    return [
        TimeRow("elementwise.forward", part, step.over_blocks(lambda b: b.elementwise_forward), law),
        TimeRow("elementwise.backward", part, step.over_blocks(lambda b: b.elementwise_backward), law),
        TimeRow("elementwise.recompute", part, step.over_blocks(lambda b: b.elementwise_recompute), recomputed),
        TimeRow("embedding", part, step.first * step.ends.embedding, embedding_seconds),
        TimeRow("loss", part, step.last * step.ends.loss, loss_seconds),
        TimeRow("gradients.accumulate", part, accumulation(step), accumulation),
        TimeRow("host.launch", part, step.over_blocks(lambda b: b.host_stall), launch_stall),
    ]


def _communication_rows(step: Step) -> list[TimeRow]:
    return [
        TimeRow("tensor_parallel", _MOVES, step.over_blocks(lambda b: b.tensor_parallel), tensor_parallel),
        TimeRow("context_parallel", _MOVES, step.over_blocks(lambda b: b.context_parallel), context_parallel),
        TimeRow("expert_parallel", _MOVES, step.over_blocks(lambda b: b.expert_parallel), expert_parallel),
        TimeRow("pipeline.exchange", _MOVES, step.exchange[0], exchange),
        TimeRow("shards.gather", _MOVES, step.over_shards(lambda s: s.gather), shards.block_shard),
        TimeRow("shards.reduce", _MOVES, step.over_shards(lambda s: s.reduce), shards.block_shard),
    ]


def step_rows(step: Step) -> list[TimeRow]:
    """Terms of a step that do not repeat with the micro-batches, the bubble and the offloading."""
    clock = step.clock
    local = local_parameters(step)
    gather, reduce = once_a_step(step)
    gathered = step.over_shards(lambda s: s.moves.weights.gathered) + step.root.weights.gathered
    busy = step.over_blocks(lambda b: b.forward + b.backward) * clock.engine.overlap
    m = clock.micro_batches
    parameters = m * np.maximum(parameter_offload_seconds(clock, gathered, 2) - busy, 0.0)
    activations = m * activation_offload_seconds(clock, step.stage_blocks, busy)
    return [
        TimeRow("pipeline.bubble", "pipeline_bubble", step.pipeline.bubble, pipeline_times),
        TimeRow("host.micro_batch", "memory_bound", host_micro_batches(clock), host_micro_batches),
        TimeRow("shards.gather_step", _MOVES, gather, once_a_step),
        TimeRow("shards.reduce_step", _MOVES, reduce, once_a_step),
        TimeRow("optimizer.update", "optimizer", update_seconds(clock, local), update_seconds),
        TimeRow("optimizer.host", "optimizer", host_step(clock), host_step),
        TimeRow("offload.optimizer", "offload", offloaded_update_seconds(clock, local), offloaded_update_seconds),
        TimeRow("offload.parameters", "offload", parameters, parameter_offload_seconds),
        TimeRow("offload.activations", "offload", activations, activation_offload_seconds),
    ]


def launch_stall(step: Step) -> Floats:
    """Waiting of the device for kernels the host has not launched yet: max(0, host - device) a block. [second, (N, 1)]

    Forward and backward apart; the host's time by engine and kernel style, more under tensor parallelism.
    Source: constants by fit; it rules small models and small micro-batches.
    """
    return step.over_blocks(lambda b: b.host_stall)


def host_micro_batches(clock: Clock) -> Floats:
    """Data loading, loss read-out and loop around every micro-batch. [second of a step, (N, 1)] Source: by fit."""
    return clock.micro_batches * clock.engine.host_micro_batch_seconds * clock.device.host_factor


def host_step(clock: Clock) -> Floats:
    """Launching the optimizer, reading the gradient norm, logging, once a step. [second, (N, 1)] Source: by fit."""
    return clock.engine.host_step_seconds * clock.device.host_factor * np.ones_like(clock.tokens)


def jitter(clock: Clock, busy: Floats) -> Floats:
    """Waiting for the slowest of many nodes: share·log2(nodes) of the step. [second, (N, 1)] Source: by fit."""
    nodes = np.maximum(clock.scenario.layout.count / clock.scenario.machine.devices_per_node, 1.0)
    return busy * clock.engine.jitter * np.log2(nodes)


def accumulation(step: Step) -> Floats:
    """Adding a micro-batch's gradients to the accumulated ones. [second, (N, 1)]

    bytes·parameters/W where a rank holds them whole; engines that reduce each micro-batch add only to a shard.
    Source: Megatron-LM main_grad; DeepSpeed's accumulation buffers.
    """
    clock, precision = step.clock, step.clock.scenario.recipe.precision
    held = float(find_dtype(precision.gradients or precision.parameters).bytes_per_element)
    elements = step.root.weights.trainable + step.over_shards(lambda s: s.moves.weights.trainable)
    if any(shard.moves.weights.trainable_experts is not None for shard in step.sharded):
        elements = elements + step.over_shards(lambda s: _or_nothing(s.moves.weights.trainable_experts))
    ways = clock.partition.shard_group if step.policy.reduces_every_micro_batch and step.policy.sharded else 1
    return elements * clock.kernel.accumulate * held / 4.0 / ways / clock.memory_rate


def _or_nothing(value: Floats | None) -> Floats:
    return np.zeros((1, 1)) if value is None else value


def local_parameters(step: Step) -> Floats:
    """Trainable parameters the busiest rank steps on: the largest stage's, over the shard group. [(N, 1)]"""
    partition, held = step.clock.partition, step.clock.partition.kind_layers
    dense = sum(
        (item.elements * item.copies for item in partition.local if item.unit < 0 and item.tensor.trainable),
        np.zeros((1, 1), dtype=np.int64),
    ).astype(np.float64)
    experts = np.zeros((1, 1))
    for blocks, shard in zip(held, step.sharded, strict=True):
        weights = shard.moves.weights
        dense = dense + blocks * weights.trainable
        if weights.trainable_experts is not None:
            experts = experts + blocks * weights.trainable_experts
    sharded = step.policy.sharded
    local = dense / (partition.shard_group if sharded else 1)
    local = local + experts / (partition.expert_shard_group if sharded else 1)
    busiest: Floats = np.broadcast_to(local, partition.shape).max(axis=1, keepdims=True)
    return busiest


def once_a_step(step: Step) -> tuple[Floats, Floats]:
    """(exposed gathers, exposed reductions) outside the blocks' windows. [second, (N, 1)]

    Engines that move every micro-batch: the root's own gathers and reduction each time. Once-a-step
    engines: all gathers, and the reductions less what the last micro-batch's backward hides; the root's are exposed.
    Source: Rajbhandari 2020 §7; Zhao 2023 §3.3.
    """
    clock, policy, root = step.clock, step.policy, step.root
    m = clock.micro_batches
    if policy.gathers_per_micro_batch:
        gather = m * policy.root_gathers_per_micro_batch * root.gather
    else:
        gather = policy.gathers_per_step * (root.gather + step.over_shards(lambda s: s.moves.gather))
    if policy.reduces_every_micro_batch:
        return gather, m * root.reduce
    blocks = step.over_shards(lambda s: s.moves.reduce)
    hidden = np.minimum(clock.engine.overlap * step.over_blocks(lambda b: b.backward), blocks)
    return gather, root.reduce + blocks - hidden + clock.engine.contention * hidden
