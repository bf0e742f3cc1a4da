"""Stages: which one is slowest, what the bubble costs, what the exchanges between stages cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from accounting.implementation import runs_megatron_deepspeed
from accounting.step_time.clock import Clock
from accounting.step_time.network import Collective, collective_seconds, group_of, traffic_of
from accounting.step_time.stages import slowest, total
from accounting.step_time.traffic import Traffic
from accounting.units import Floats
from accounting.vocabulary import Engine, Schedule

STALL_NODES = 32
"""Published pipelines with blocking exchanges ran freely on up to 32 nodes and stalled on 64."""

_BUBBLE: Mapping[Schedule, tuple[float, float]] = {
    Schedule.ONE_F_ONE_B: (1.0, 1.0),
    Schedule.GPIPE: (1.0, 1.0),
    Schedule.INTERLEAVED: (1.0, 1.0),
    Schedule.ZERO_BUBBLE: (1 / 3, 2 / 3),
    Schedule.DUALPIPE: (1 / 4, 2 / 3),
}
"""Idle share of the classic bubble, with micro-batches to fill the stages, and with one alone. Zero-bubble H1 fills two
thirds with weight gradients (Qi 2023 §2.3); DualPipe has half as many idle slots, each about half as long (DeepSeek-V3
report, table 2). One micro-batch alone passes every stage in turn; only weight gradients wait until it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """(N, 1) each."""

    slowest: Floats
    """Seconds of one micro-batch in the slowest stage."""
    stage: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    """Its index."""
    bubble: Floats
    """Seconds of a step in which the slowest stage waits for the others."""


def pipeline_times(clock: Clock, stages: Floats) -> Pipeline:
    """Fill and drain around m micro-batches of the slowest stage. [second, (N, 1)]

    step = m·t_max + others·idle/v, others = Σ t - t_max: every other stage is passed once to fill and drain, in v
    chunks when interleaved. That takes as many micro-batches as stages; of fewer, each after the first saves
    t_max·(alone - idle/v) of what one alone waits, others·alone. Source: Narayanan 2021 §2.2; Huang 2019 (GPipe).
    """
    recipe, layout = clock.scenario.recipe, clock.scenario.layout
    longest, stage = slowest(stages)
    others = total(stages) - longest
    virtual = np.where(layout.pp > 1, np.maximum(layout.vpp, 1), 1)
    share, alone = _BUBBLE[recipe.schedule]
    idle = share / virtual
    few = others * alone - (clock.micro_batches - 1) * longest * (alone - idle)
    bubble = np.maximum(np.maximum(others, 0.0) * idle, few)
    return Pipeline(slowest=longest, stage=stage, bubble=np.where(layout.pp > 1, bubble, 0.0))


def exchange(clock: Clock) -> tuple[Floats, Traffic]:
    """(exposed seconds, traffic) of one micro-batch's exchanges in a middle stage, forward and backward. [(N, 1)]

    2·v messages of tokens·h (a tp-th each under sequence parallelism, and under Megatron's scatter and gather) to the
    next stage and back, on the NIC where the stages stand in different nodes. Source: Narayanan 2021 §4.1.
    """
    layout, engine = clock.scenario.layout, clock.engine
    size = clock.tokens * clock.architecture.hidden_size * clock.activation_bytes * _sent(clock)
    group = group_of(clock, np.minimum(layout.pp, 2), layout.count // layout.pp)
    messages = np.where(layout.pp > 1, 2.0 * np.maximum(layout.vpp, 1), 0.0)
    wire = collective_seconds(clock, Collective.POINT_TO_POINT, size, group)
    host = engine.host_exchange_seconds * clock.device.host_factor
    seconds = messages * (engine.pipeline_exposed * wire + host)
    return seconds, traffic_of(Collective.POINT_TO_POINT, size, group).times(messages)


def _sent(clock: Clock) -> Floats:
    """Share of tokens·h that a rank sends to the next stage, mean of both directions. [1, (N, 1)]

    A tp-th under sequence parallelism, under Megatron's scatter and gather and DeepSpeed's partitioned tensors; but the
    gradients that DeepSpeed's bf16 optimizer sends back stay whole. Source: Narayanan 2021 §4.1; DeepSpeed's pipeline
    engine (is_pipe_partitioned, is_grad_partitioned).
    """
    recipe = clock.scenario.recipe
    scattered = 1 / (clock.tp if recipe.engine is Engine.MEGATRON else clock.norm_split)
    if runs_megatron_deepspeed(recipe) and recipe.precision.parameters == "bf16":
        return np.where(clock.scenario.layout.sequence_parallel, scattered, (1 + scattered) / 2)
    return scattered


def stalls(clock: Clock) -> Floats:
    """Waiting of a step's blocking exchanges on a large cluster. [second, (N, 1)]

    (2·neighbours·(m - 1) + 2·(p - 1))·stall on more than STALL_NODES nodes: every micro-batch waits for its neighbours'
    exchanges, the first one on its way through all stages and back. Seen in every published run of that size and
    engine, whatever the message, so a property of the cluster and the engine's exchanges and not of the links' speed.
    """
    layout, machine = clock.scenario.layout, clock.scenario.machine
    large = (layout.count > STALL_NODES * machine.devices_per_node) & (layout.pp > 1)
    neighbours = np.minimum(layout.pp - 1, 2)
    exchanges = 2.0 * neighbours * (clock.micro_batches - 1) + 2.0 * (layout.pp - 1)
    return np.where(large, exchanges * clock.device.exchange_stall * clock.engine.blocking, 0.0)
