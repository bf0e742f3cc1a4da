"""Once a step: how many parameters the busiest rank steps on, and what of the shards' traffic nothing hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accounting.step_time.clock import Clock
from accounting.step_time.stages import largest
from accounting.units import Floats

if TYPE_CHECKING:
    from accounting.step_time.assembly import Step

_BUCKET_SHARE = 2 / 25e6
"""Buckets a parameter: 16-bit gradients in buckets of 25 MB. Source: torch DistributedDataParallel, bucket_cap_mb."""


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
    return largest(np.broadcast_to(local, partition.shape))


def once_a_step(step: Step) -> tuple[Floats, Floats]:
    """(exposed gathers, exposed reductions) outside the blocks' windows. [second, (N, 1)]

    Engines that move every micro-batch: the root's own gathers and reduction each time. Once-a-step engines: the
    gathers less what the first micro-batch's forward hides (Megatron-Core's overlap_param_gather), and the reductions
    less what the last micro-batch's backward hides; the root's are exposed.
    Source: Rajbhandari 2020 §7; Zhao 2023 §3.3.
    """
    clock, policy, root = step.clock, step.policy, step.root
    m = clock.micro_batches
    if policy.gathers_per_micro_batch:
        gather = m * policy.root_gathers_per_micro_batch * root.gather
    else:
        blocks = step.over_shards(lambda s: s.moves.gather)
        hidden = clock.engine.gather_overlap * np.minimum(blocks, step.over_blocks(lambda b: b.forward))
        gather = policy.gathers_per_step * (root.gather + blocks - hidden + clock.engine.contention * hidden)
    if policy.reduces_every_micro_batch:
        return gather, m * root.reduce
    blocks, window = step.over_shards(lambda s: s.moves.reduce), step.over_blocks(lambda b: b.backward)
    if accumulates_apart(clock):
        window = window * clock.engine.accumulated_overlap
    if policy.sharded:
        window = window * clock.engine.sharded_overlap
        gather = gather + single_tensors(step)
    hidden = np.minimum(clock.engine.overlap * window, blocks)
    return gather, root.reduce + blocks - hidden + clock.engine.contention * hidden + bucket_hooks(step)


def bucket_hooks(step: Step) -> Floats:
    """Host time of the hooks of a rank's gradient buckets in a step's last backward. [second, (N, 1)]

    parameters·2 B/25 MB·t, where more than one rank shares them.
    """
    held = step.root.weights.trainable + step.over_shards(lambda s: s.moves.weights.trainable)
    several = step.clock.scenario.layout.count > step.clock.tp * step.clock.scenario.layout.pp
    return np.where(several, held * _BUCKET_SHARE * step.clock.engine.host_bucket_seconds, 0.0)


def accumulates_apart(clock: Clock) -> bool:
    """Whether gradients are added up in fp32 beside the 16-bit ones that the backward makes."""
    precision = clock.scenario.recipe.precision
    return precision.gradients == "fp32" and precision.parameters != "fp32"


def single_tensors(step: Step) -> Floats:
    """Host time of gathering a stage's tensors one by one, once a step. [second, (N, 1)]"""
    several = step.groups.shard.size > 1
    return np.where(several, step.stage_blocks * step.clock.engine.host_shard_seconds, 0.0)
