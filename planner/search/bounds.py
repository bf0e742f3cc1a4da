"""Lower bounds: what a candidate takes at least, cheap enough to spare it the whole evaluation.

A bound only ever rules out what cannot be shown: a candidate that is slower at best than another layout of the same
machine and count costs more as well (a place has one rate), so that the other is before it in every order.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from accounting.facts.calibration import CALIBRATION
from accounting.partition import partition_of
from accounting.scenario import Layout, Recipe, Scenario
from accounting.standing import Unread
from accounting.step_time.blocks import block_times, end_times
from accounting.step_time.clock import clock_of
from accounting.units import TERA, Floats
from accounting.vocabulary import RecomputeMode, Schedule

FULL_BUBBLE = (Schedule.ONE_F_ONE_B, Schedule.GPIPE, Schedule.INTERLEAVED)
"""Schedules whose stages wait for one another for a whole pass of the pipeline."""
LANGUAGE_HEADS = ("lm", "masked_lm")
BLOCK_COLUMNS = ("tp", "cp", "pp", "ep", "etp", "sequence_parallel", "sequence_length", "micro_batch_size")
"""What a micro-batch through one block reads of a layout; whatever else it asked for would raise BatchRead."""
SHARED_GROUPS = ("shard_group", "replicate_group", "expert_shard_group", "live_chunks")
SLACK = 1 - 1e-9
"""The bound adds the same seconds up in another order: more than rounding can differ in, less than anybody can see."""
MOST_CODES = 1 << 62


def product_flops(recipe: Recipe) -> float:
    """FLOP of a token in the matrix products of a step: forward, backward and full recomputation. [FLOP]

    2 · elements a pass: three passes over trained weights, two over frozen ones, one more where all is recomputed.
    Source: `accounting.step_time.matmul`.
    """
    architecture = recipe.model.architecture
    if architecture is None:
        return 0.0
    recompute = recipe.recompute
    again = recompute.mode is RecomputeMode.FULL and recompute.every == 1 and recompute.layers is None
    total = 0.0
    for tensor, times in recipe.inventory.all_tensors():
        if tensor.linear and tensor.role != "head":
            copies: float = tensor.count
            if tensor.expert and architecture.moe is not None:
                copies = architecture.moe.top_k * recipe.options.expert_imbalance
            total += 2.0 * tensor.elements * copies * times * ((3 if tensor.trainable else 2) + again)
    if architecture.head in LANGUAGE_HEADS:
        total += 2.0 * architecture.hidden_size * architecture.vocab_size * (3 if recipe.adapter is None else 2)
    return total


def fastest_rate(scenario: Scenario) -> Floats:
    """A rate that no matrix product of a candidate exceeds, by the constants of the time model. [FLOP/s, (N, 1)]

    The largest peak of the recipe's dtype and the wider ones · the share of it that an endless product reaches.
    """
    fastest = max(max(row.products, 1.0) * max(row.grouped, 1.0) for row in CALIBRATION.kernels.values())
    small = max([1.0, *(row.efficiency for row in CALIBRATION.low_precision.values())])
    machine, single = scenario.machine, scenario.recipe.precision.compute == "fp32"
    rates = []
    for row in machine.accelerators:
        share = 1.0 if single else CALIBRATION.device(row.slug, row.architecture).gemm_efficiency * fastest * small
        known = (row.fp32_tflops,) if single else (row.bf16_tflops, row.fp16_tflops, row.fp32_tflops)
        peak = max((rate for rate in known if rate is not None), default=np.nan) * TERA
        rates.append((share, peak))
    share, peak = np.asarray(rates, dtype=np.float64).reshape(-1, 2)[machine.accelerator_index[:, 0]].T
    rate: Floats = share.reshape(-1, 1) * np.fmax(machine.peak_flops, peak.reshape(-1, 1))
    return rate


def least_seconds(scenario: Scenario, flops_per_token: float) -> Floats:
    """What a step takes at least. [second, (N, 1)]

    The larger of f·tokens of a step / (count · rate) and (1 - 1e-9) · m · (blocks and ends of the whole model on their
    device) / pp, · (1 + (pp - 1) / (v · m)): no stage is shorter than their mean. NaN where no rate is known.
    """
    layout = scenario.layout
    ideal = flops_per_token * layout.tokens_per_step / (layout.count * fastest_rate(scenario))
    least: Floats = np.fmax(ideal, SLACK * layout.micro_batches * passes(scenario) / layout.pp)
    if scenario.recipe.schedule not in FULL_BUBBLE:
        return least
    return least * (1.0 + (layout.pp - 1) / (np.maximum(layout.vpp, 1) * layout.micro_batches))


def passes(scenario: Scenario) -> Floats:
    """One micro-batch forward and backward through all blocks and both ends of the model. [second, (N, 1)]

    Many candidates differ in their count, their data parallelism and their micro-batches alone: each block is timed
    once for all of them. NaN where a fact of the machine is unknown, 0 where the model has no blocks.
    """
    architecture, inventory = scenario.recipe.model.architecture, scenario.recipe.inventory
    if architecture is None or not inventory.kinds:
        return np.zeros((len(scenario), 1))
    first, index = distinct(scenario)
    once = scenario.take(first)
    unread = cast(Any, Unread())
    partition = replace(partition_of(once), **dict.fromkeys(SHARED_GROUPS, unread))
    others = dict.fromkeys((item.name for item in fields(Layout) if item.name not in BLOCK_COLUMNS), unread)
    micro_batches = once.layout.micro_batches
    once = replace(once, layout=replace(once.layout, **{**others, "micro_batches": micro_batches}))
    with np.errstate(invalid="ignore"):
        clock = replace(clock_of(once, partition, architecture, CALIBRATION), micro_batches=unread)
        clock = replace(clock, scenario=replace(once, layout=replace(once.layout, micro_batches=unread)))
        ends = end_times(clock)
        seconds = ends.embedding + ends.head + ends.loss
        for unit, kind in enumerate(inventory.kinds):
            block = block_times(clock, unit, kind)
            seconds = seconds + inventory.pattern.count(unit) * (block.forward + block.backward)
    each: Floats = seconds[index]
    return each


def distinct(scenario: Scenario) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(one row of each distinct block on a device and node, (K,); which of them each candidate has, (N,))."""
    layout, machine = scenario.layout, scenario.machine
    columns = [getattr(layout, name) for name in BLOCK_COLUMNS] + [machine.accelerator_index, machine.node_index]
    code, size = np.zeros(len(scenario), dtype=np.int64), 1
    for values in columns:
        here = values[:, 0].astype(np.int64)
        width = int(here.max()) + 1
        if size * width > MOST_CODES:
            _, code = np.unique(code, return_inverse=True)
            _, here = np.unique(here, return_inverse=True)
            size, width = len(scenario), len(scenario)
        code, size = code * width + here, size * width
    _, first, index = np.unique(code, return_index=True, return_inverse=True)
    return first.astype(np.int64), index.astype(np.int64)
