"""Collectives inside a block: tensor and sequence parallelism, context parallelism, expert parallelism."""

from __future__ import annotations

import numpy as np

from accounting.model.tensors import LayerKind
from accounting.step_time.clock import Clock
from accounting.step_time.network import Collective, collective_seconds, group_of, traffic_of
from accounting.step_time.traffic import Traffic
from accounting.units import Floats
from accounting.vocabulary import Engine

_ASYNC_EXPOSED = 0.5
"""Share left exposed by asynchronous tensor parallelism. Source: torchtitan's async-TP table (2025-06)."""


def tensor_parallel(clock: Clock) -> tuple[Floats, Traffic, Traffic]:
    """(exposed seconds, traffic) of one block's forward, and what the backward moves beyond the same. [(N, 1)]

    2 all-reduces of tokens·h, or an all-gather and a reduce-scatter each under sequence parallelism; one pair where
    attention and MLP run side by side. Megatron-style layers keep their sequence-parallel inputs split and gather them
    once more for the weights' gradient: bytes alone, as that gather runs beside the data gradient's product; DTensor
    keeps the gathered input. Source: Shoeybi 2019 §3; Korthikanti 2022 §4.2; Megatron-Core tensor_parallel/layers.py;
    nanotron column_linear.
    """
    pairs = 1.0 if clock.architecture.parallel_block else 2.0
    size = clock.tokens * clock.architecture.hidden_size * clock.activation_bytes
    group = group_of(clock, clock.scenario.layout.tp, 1)
    sequence = clock.scenario.layout.sequence_parallel
    seconds = np.zeros_like(clock.tokens)
    if sequence.any():
        seconds = np.where(sequence, 2 * collective_seconds(clock, Collective.ALL_GATHER, size, group), seconds)
    if not sequence.all():
        seconds = np.where(sequence, seconds, collective_seconds(clock, Collective.ALL_REDUCE, size, group))
    seconds = seconds * clock.engine.tensor_parallel_across ** np.log2(group.islands)
    exposed = clock.engine.tensor_parallel_exposed
    exposed *= _ASYNC_EXPOSED if clock.scenario.recipe.options.enable_async_tensor_parallel else 1.0
    split, whole = np.where(sequence, pairs * size, 0.0), np.where(sequence, 0.0, pairs * size)
    gathered = traffic_of(Collective.ALL_GATHER, split, group)
    traffic = gathered + traffic_of(Collective.REDUCE_SCATTER, split, group)
    again = gathered if clock.scenario.recipe.engine is Engine.MEGATRON else Traffic()
    return pairs * exposed * seconds, traffic + traffic_of(Collective.ALL_REDUCE, whole, group), again


def context_parallel(clock: Clock, attention: Floats) -> tuple[Floats, Traffic]:
    """(exposed seconds, traffic) of one block's forward; the backward moves twice as much. [(N, 1)]

    ring: keys and values of the other ranks, hidden behind the core; all-to-all: q, k, v and output change their cut.
    Source: Liu 2023 (ring attention); Jacobs 2023 (Ulysses).
    """
    shape, layout = clock.architecture, clock.scenario.layout
    if not (layout.cp > 1).any():
        return np.zeros_like(clock.tokens), Traffic()
    group = group_of(clock, layout.cp, layout.tp)
    if clock.scenario.recipe.options.cp_comm_type == "a2a":
        width = 2 * (shape.query_width + shape.key_value_width) / clock.tp
        size = clock.tokens * width * clock.activation_bytes
        seconds = collective_seconds(clock, Collective.ALL_TO_ALL, size, group)
        return seconds, traffic_of(Collective.ALL_TO_ALL, size, group)
    width = 2 * shape.key_value_width / clock.tp
    if shape.mla is not None:
        width = core_key_value_width(clock)
    size = clock.tokens * width * clock.activation_bytes * layout.cp
    seconds = collective_seconds(clock, Collective.ALL_GATHER, size, group)
    exposed = np.maximum(seconds - clock.engine.overlap * attention, seconds / np.maximum(group.size, 1))
    ring = traffic_of(Collective.ALL_GATHER, size, group)
    return exposed, Traffic(point_to_point=ring.all_gather, across=ring.across)


def core_key_value_width(clock: Clock) -> Floats:
    """Keys and values of latent attention once they are expanded, per rank. [elements, (N, 1)]"""
    mla = clock.architecture.mla
    assert mla is not None
    return clock.architecture.heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim + mla.v_head_dim) / clock.tp


def expert_parallel(clock: Clock, kind: LayerKind) -> tuple[Floats, Traffic]:
    """(seconds, traffic) of one mixture block's forward: dispatch and combine; the backward moves the same. [(N, 1)]

    2 all-to-alls of tokens/tp·k·h over the experts' ranks, a gather and a scatter of them over the ranks that share an
    expert; a token goes once to a node (in one node: to a rank) however many of its experts live there, of x of them to
    x·(1 - (1 - 1/x)^k) on average. Source: Lepikhin 2020 (GShard) §3; DeepSeek-V3 report §3.2.2; Megatron-Core's
    all-to-all dispatcher.
    """
    mixture, layout = clock.architecture.moe, clock.scenario.layout
    if not kind.mixture or mixture is None:
        return np.zeros_like(clock.tokens), Traffic()
    group, shared = group_of(clock, layout.ep, layout.etp), group_of(clock, layout.etp, 1)
    places = np.where(group.islands > 1, group.islands, group.size)
    copies = places * (1 - (1 - 1 / places) ** mixture.top_k)
    size = clock.tokens / clock.tp * copies * clock.architecture.hidden_size * clock.activation_bytes
    seconds = collective_seconds(clock, Collective.ALL_TO_ALL, size, group)
    seconds = seconds + collective_seconds(clock, Collective.ALL_GATHER, size * layout.etp, shared)
    traffic = traffic_of(Collective.ALL_TO_ALL, size, group).times(2.0)
    traffic = traffic + traffic_of(Collective.ALL_GATHER, size * layout.etp, shared)
    traffic = traffic + traffic_of(Collective.REDUCE_SCATTER, size * layout.etp, shared)
    return 2 * clock.engine.expert_parallel_exposed * seconds, traffic
