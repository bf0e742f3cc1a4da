"""Seconds, rates and traffic of one optimizer step."""

from __future__ import annotations

from functools import partial

import numpy as np

from accounting.facts.calibration import CALIBRATION, Calibration
from accounting.partition import Partition
from accounting.scenario import Scenario
from accounting.step_time import shards
from accounting.step_time.assembly import Step, assemble
from accounting.step_time.clock import clock_of
from accounting.step_time.doubts import doubts
from accounting.step_time.flops import step_flops
from accounting.step_time.pressure import allocator_retries
from accounting.step_time.repeated import Repeated
from accounting.step_time.rows import host_bytes, jitter, step_rows
from accounting.step_time.terms import micro_batch_rows
from accounting.step_time.timing import PARTS, TimeRow, Timing, unknown_timing
from accounting.step_time.traffic import Traffic, whole
from accounting.units import Bytes, Floats


def step_time(
    scenario: Scenario, partition: Partition, calibration: Calibration = CALIBRATION, *, need: Bytes | None = None
) -> Timing:
    """Seconds of one optimizer step with all its terms. All columns (N, 1).

    `need` is what the memory ledger expects the driver to show, int64 of shape (N, 1): a run on the card's last bytes
    is slower. None leaves that out.

    NaN wherever a machine fact it needs is unknown; all NaN where the model has no architecture.
    """
    architecture = scenario.recipe.model.architecture
    if architecture is None or not partition.kind_layers:
        return unknown_timing(len(scenario), "step time needs an architecture: a bare count or a tensor list has none")
    with np.errstate(invalid="ignore"):
        return _timing(assemble(clock_of(scenario, partition, architecture, calibration)), need)


def step_seconds(
    scenario: Scenario,
    partition: Partition,
    calibration: Calibration = CALIBRATION,
    *,
    need: Bytes | None = None,
    repeated: Repeated | None = None,
) -> Floats:
    """`step_time(...).step_seconds` alone, without the traffic, FLOP and bands that a search or a fit does not read.

    [second, (N, 1)]; NaN as there. `repeated` is what `repeated_of` found for these candidates, where it was asked.
    """
    architecture = scenario.recipe.model.architecture
    if architecture is None or not partition.kind_layers:
        return np.full((len(scenario), 1), np.nan)
    timed = None if repeated is None else repeated.spread()
    with np.errstate(invalid="ignore"):
        return _summed(assemble(clock_of(scenario, partition, architecture, calibration), timed), need)[0]


def _summed(step: Step, need: Bytes | None) -> tuple[Floats, dict[str, Floats], list[TimeRow]]:
    """(seconds of a step, the same by part, the same by term)."""
    clock = step.clock
    rows = [*micro_batch_rows(step), *step_rows(step)]
    zero = np.zeros_like(clock.tokens)
    parts = {part: sum((row.seconds for row in rows if row.part == part), zero) for part in PARTS}
    waited = jitter(clock, sum(parts.values(), zero))
    rows.append(TimeRow("jitter", "exposed_communication", waited, jitter))
    rows = [TimeRow(row.key, row.part, np.broadcast_to(row.seconds, zero.shape), row.law) for row in rows]
    parts["exposed_communication"] = parts["exposed_communication"] + waited
    seconds = sum(parts.values(), zero)
    if need is not None:
        retried = allocator_retries(seconds, need, clock.scenario.machine.capacity_bytes, clock.engine.full_card)
        rows.append(TimeRow("allocator.retries", "memory_bound", retried, allocator_retries))
        parts["memory_bound"] = parts["memory_bound"] + retried
        seconds = seconds + retried
    return seconds, parts, rows


def _timing(step: Step, need: Bytes | None) -> Timing:
    clock, layout = step.clock, step.clock.scenario.layout
    seconds, parts, rows = _summed(step, need)
    model, hardware = step_flops(clock)
    moved = _traffic(step)
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
        traffic_bytes=moved.rounded(len(clock.scenario)),
        inter_bytes=whole(moved.across, len(clock.scenario)),
        host_bytes=whole(np.nan_to_num(host_bytes(step)), len(clock.scenario)),
        band=(seconds * clock.device.band_low, seconds * clock.device.band_high),
        slowest_stage=step.pipeline.stage,
        warnings=partial(doubts, clock, model / peak, hardware / peak),
    )


def _traffic(step: Step) -> Traffic:
    """Bytes a device of the slowest stage sends in a step."""
    policy, m = step.policy, step.clock.micro_batches
    total = step.exchange[1].times(m)
    gathers = m * policy.gathers_per_micro_batch + policy.gathers_per_step
    root_gathers = m * policy.root_gathers_per_micro_batch + policy.gathers_per_step
    reduces = m if policy.reduces_every_micro_batch else np.ones_like(m)
    for held, block, shard in zip(step.held, step.blocks, step.sharded, strict=True):
        weights = shard.moves.weights
        total = total + block.traffic.times(held * m)
        total = total + shards.gather_traffic(weights, step.groups).times(held * gathers)
        total = total + shards.reduce_traffic(weights, step.groups, policy).times(held * reduces)
    embedding, head, loss = (exchange.traffic.times(m) for exchange in step.ends.exchanges)
    total = total + embedding.times(step.first) + (head + loss).times(step.last)
    total = total + step.tied.traffic.times(np.maximum(step.first, step.last))
    total = total + shards.gather_traffic(step.root.weights, step.groups).times(root_gathers)
    return total + shards.reduce_traffic(step.root.weights, step.groups, policy).times(reduces)
