"""Sanity laws over random layouts: what must never happen whatever the constants are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting.facts.precisions import PRESETS
from accounting.partition import partition_of
from accounting.scenario import Offload, Recompute, Scenario
from accounting.step_time import step_time
from accounting.step_time.pressure import allocator_retries
from accounting.step_time.stages import largest, slowest, total
from accounting.step_time.terms import MICRO_BATCH_TERMS
from accounting.units import Bytes, Floats
from accounting.vocabulary import Engine, Place, RecomputeMode
from tests.accounting.step_time.scenes import H100, NODE, scene, seconds, slower, timed

ROWS = 400
SLACK = 0.005
"""Once-a-step traffic is the slowest stage's: where another stage becomes the slowest, it may be less."""
MEGATRON: dict[str, Any] = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master-fp32grad"]}
RECIPES: tuple[dict[str, Any], ...] = ({}, {"engine": Engine.FSDP1, "zero_stage": 2}, MEGATRON)


def _columns(seed: int) -> dict[str, Bytes]:
    generator = np.random.default_rng(seed)
    power = lambda most: 2 ** generator.integers(0, most, ROWS)  # noqa: E731 - one use
    return {
        "dp_shard": power(8),
        "dp_replicate": power(2),
        "tp": power(5),
        "pp": power(4),
        "sequence_length": 512 * power(5),
        "micro_batch_size": power(4),
        "micro_batches": power(6),
    }


def _seconds(**arguments: Any) -> Floats:
    return timed(**arguments).step_seconds


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("link", ["intra_bandwidth", "inter_bandwidth", "pcie_bandwidth"])
def test_no_layout_gains_from_a_slower_link(recipe: dict[str, Any], link: str) -> None:
    scenario, before = scene(recipe=recipe, **_columns(1)), 0.0
    for factor in (1.0, 0.7, 0.4, 0.1, 0.01):
        machine = replace(scenario.machine, **{link: getattr(scenario.machine, link) * factor})
        slow = replace(scenario, machine=machine)
        found = step_time(slow, partition_of(slow)).step_seconds
        assert (found >= before * (1 - SLACK)).all()
        before = found


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_layout_gains_from_a_slower_device(recipe: dict[str, Any]) -> None:
    columns = _columns(2)
    fast = _seconds(recipe=recipe, **columns)
    for name in ("bf16_tflops", "memory_bandwidth_bytes_per_second"):
        slow = replace(H100, **{name: getattr(H100, name) / 2})
        assert (_seconds(recipe=recipe, accelerator=slow, **columns) >= fast * (1 - SLACK)).all()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", ["micro_batch_size", "micro_batches", "sequence_length"])
def test_more_tokens_never_take_less_time(recipe: dict[str, Any], name: str) -> None:
    columns = _columns(3)
    few = _seconds(recipe=recipe, **columns)
    assert (_seconds(recipe=recipe, **(columns | {name: 2 * columns[name]})) >= few * (1 - 1e-9)).all()


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_layout_runs_above_the_peak(recipe: dict[str, Any]) -> None:
    timing = timed(recipe=recipe, **_columns(4))
    assert (timing.hfu[np.isfinite(timing.hfu)] < 1).all()
    # Half of the attention of the definition is never computed under a causal mask: the core alone may pass the peak.
    assert (timing.mfu <= timing.hfu * (1 + 1e-12)).all()


def test_recomputing_and_offloading_never_save_time() -> None:
    columns = {name: values for name, values in _columns(5).items() if name not in {"tp", "pp"}}
    plain = {"engine": Engine.DEEPSPEED, "zero_stage": 3, "precision": PRESETS["bf16-master"]}
    before = _seconds(recipe=plain, **columns)
    for change in (
        {"recompute": Recompute(mode=RecomputeMode.FULL)},
        {"recompute": Recompute(mode=RecomputeMode.SELECTIVE)},
        {"offload": Offload(optimizer=Place.CPU)},
        {"offload": Offload(parameters=Place.CPU)},
        {"offload": Offload(activations=Place.CPU), "recompute": Recompute(mode=RecomputeMode.FULL)},
    ):
        assert (_seconds(recipe=plain | change, **columns) >= before * (1 - 1e-9)).all()


def test_more_devices_on_the_same_batch_never_do_less_work_in_total() -> None:
    for recipe in RECIPES:
        columns = {"micro_batch_size": 1}
        totals = [
            seconds(recipe=recipe, dp_shard=d, micro_batches=256 // d, **columns) * d for d in (1, 4, 16, 64, 256)
        ]
        assert totals == sorted(totals)


def test_hybrid_shards_are_faster_than_full_shards_over_a_slow_network() -> None:
    node = slower(NODE, inter_bytes_per_second_total=12.5e9)
    hybrid = seconds(node=node, dp_shard=8, dp_replicate=4, micro_batch_size=2)
    assert seconds(node=node, dp_shard=32, micro_batch_size=2) > 1.05 * hybrid


def test_blocking_exchanges_stall_on_large_clusters_only() -> None:
    layout = {"recipe": MEGATRON, "pp": 4, "tp": 2, "micro_batches": 16}

    def exchanged(**changes: int) -> float:
        return float(timed(**layout, **changes).parts["exposed_communication"][0, 0])

    assert exchanged(dp_shard=64) - exchanged(dp_shard=32) > 16 * 4 * 0.1
    assert exchanged(dp_shard=32) - exchanged(dp_shard=16) < 1
    assert exchanged(dp_shard=64, vpp=2) < exchanged(dp_shard=64)


def test_stalls_are_counted_once_on_the_way_through_the_stages() -> None:
    layout = {"recipe": MEGATRON, "tp": 2, "dp_shard": 64}

    def stalled(pp: int, m: int) -> float:
        return next(
            float(row.seconds[0, 0])
            for row in timed(**layout, pp=pp, micro_batches=m).lines
            if row.key == "pipeline.stall"
        )

    one = stalled(4, 1) / 6
    assert one > 0
    assert stalled(4, 9) == pytest.approx((4 * 8 + 6) * one)
    assert stalled(8, 2) == pytest.approx((4 + 14) * one)


def test_a_card_with_a_lower_power_limit_is_slower_once_the_limit_binds() -> None:
    full = seconds(dp_shard=8)
    assert seconds(accelerator=replace(H100, power_watts=500.0), dp_shard=8) > 1.1 * full
    assert seconds(accelerator=replace(H100, power_watts=900.0), dp_shard=8) == pytest.approx(full)
    assert seconds(accelerator=replace(H100, power_watts=None), dp_shard=8) == pytest.approx(full)


def test_the_last_bytes_of_a_card_are_slow_ones() -> None:
    capacity = np.asarray([[1000], [1000], [1000], [1000], [1040], [1100], [-1]])
    need = np.asarray([[500], [970], [985], [1000], [1040], [1200], [1000]])
    retried = allocator_retries(np.full((7, 1), 2.0), need, capacity, 0.4).ravel()
    np.testing.assert_allclose(retried, [0, 0, 0.4, 0.8, 0.8, 0.8, 0], atol=1e-9)


def test_memory_in_need_adds_one_line_and_keeps_the_sum() -> None:
    scenario = scene(recipe=MEGATRON, dp_shard=[8, 8, 16])
    partition, capacity = partition_of(scenario), scenario.machine.capacity_bytes
    need = (capacity * np.asarray([[0.5], [0.99], [1.0]])).astype(np.int64)
    plain, full = step_time(scenario, partition), step_time(scenario, partition, need=need)
    assert full.lines[-1].key == "allocator.retries"
    np.testing.assert_allclose(sum(row.seconds for row in full.lines), full.step_seconds, rtol=1e-12)
    np.testing.assert_allclose(sum(full.parts.values()), full.step_seconds, rtol=1e-12)
    ratio = (full.step_seconds / plain.step_seconds).ravel()
    assert ratio[0] == pytest.approx(1)
    assert 1.2 < ratio[1] < ratio[2] <= 1.4 + 1e-9


def test_every_term_says_something_of_its_own() -> None:
    notes = [row.formula.split("\n", 1)[0] for row in timed(dp_shard=16, pp=2, micro_batches=4).lines]
    assert len(set(notes)) == len(notes) > len(MICRO_BATCH_TERMS)
    assert all("[second" in note for note in notes)


def test_sums_over_stages_match_the_plain_ones() -> None:
    values = np.random.default_rng(6).normal(size=(50, 7))
    np.testing.assert_allclose(total(values)[:, 0], values.sum(axis=1))
    np.testing.assert_array_equal(largest(values)[:, 0], values.max(axis=1))
    longest, index = slowest(values)
    np.testing.assert_array_equal(longest[:, 0], values.max(axis=1))
    np.testing.assert_array_equal(index[:, 0], values.argmax(axis=1))


def _taken(scenario: Scenario, row: int) -> Scenario:
    return scenario.take(np.asarray([row]))


def test_one_row_equals_its_row_among_many_with_its_memory() -> None:
    scenario = scene(recipe=MEGATRON, **_columns(8))
    need = (scenario.machine.capacity_bytes * np.random.default_rng(8).uniform(0.9, 1.02, (ROWS, 1))).astype(np.int64)
    whole = step_time(scenario, partition_of(scenario), need=need).step_seconds
    for row in range(0, ROWS, 57):
        alone = _taken(scenario, row)
        found = step_time(alone, partition_of(alone), need=need[[row]]).step_seconds
        assert found[0, 0] == pytest.approx(whole[row, 0], rel=1e-12)
