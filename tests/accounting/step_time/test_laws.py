"""Laws no calibration may break: peak, links, devices, traffic, sums, one row like many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting.facts.calibration import CALIBRATION
from accounting.facts.precisions import PRESETS
from accounting.model import model_from_count
from accounting.partition import partition_of
from accounting.scenario import Recompute, Scenario
from accounting.step_time import PARTS, Timing, step_time
from accounting.step_time.clock import clock_of
from accounting.step_time.pipeline import pipeline_times
from accounting.vocabulary import Attention, Engine, RecomputeMode, Schedule
from tests.accounting.step_time.scenes import DENSE, H100, MIXTURE, NODE, scene, seconds, slower, timed

_GENERATOR = np.random.default_rng(7)
RECIPES: tuple[dict[str, Any], ...] = (
    {},
    {"zero_stage": 2},
    {"engine": Engine.DDP, "zero_stage": 0},
    {"engine": Engine.DEEPSPEED, "zero_stage": 2, "precision": PRESETS["bf16-master"]},
    {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master-fp32grad"]},
    {"engine": Engine.FSDP1, "recompute": Recompute(mode=RecomputeMode.FULL), "attention": Attention.EAGER},
    {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["fp8-master"]},
)


def _many(rows: int, recipe: dict[str, Any]) -> Scenario:
    power = lambda most: 2 ** _GENERATOR.integers(0, most, rows)  # noqa: E731 - one use
    return scene(
        recipe=recipe,
        dp_shard=power(7),
        tp=power(4),
        cp=power(2),
        pp=power(3),
        sequence_length=1024 * power(4),
        micro_batch_size=power(4),
        micro_batches=power(6),
    )


def _timing(scenario: Scenario) -> Timing:
    return step_time(scenario, partition_of(scenario))


@pytest.mark.parametrize("recipe", RECIPES)
def test_parts_and_lines_sum_to_the_step(recipe: dict[str, Any]) -> None:
    timing = _timing(_many(200, recipe))
    assert tuple(timing.parts) == PARTS
    np.testing.assert_allclose(sum(timing.parts.values()), timing.step_seconds, rtol=1e-12)
    np.testing.assert_allclose(sum(row.seconds for row in timing.lines), timing.step_seconds, rtol=1e-12)
    assert all((part >= 0).all() for part in timing.parts.values())
    assert np.isfinite(timing.step_seconds).all()


@pytest.mark.parametrize("recipe", RECIPES)
def test_one_row_equals_its_row_among_a_thousand(recipe: dict[str, Any]) -> None:
    scenario = _many(1000, recipe)
    whole = _timing(scenario)
    for row in (0, 17, 999):
        alone = _timing(scenario.take(np.asarray([row])))
        np.testing.assert_allclose(alone.step_seconds[0, 0], whole.step_seconds[row, 0], rtol=1e-12)
        for name, moved in alone.traffic_bytes.items():
            assert moved[0, 0] == whole.traffic_bytes[name][row, 0]


@pytest.mark.parametrize("recipe", RECIPES)
def test_products_never_run_above_the_peak(recipe: dict[str, Any]) -> None:
    scenario = _many(300, recipe)
    timing = _timing(scenario)
    layout = scenario.layout
    tokens = (layout.tokens_per_step / layout.count).astype(np.float64)
    weights = DENSE.parameters - 128256 * 4096
    least = 6 * weights * tokens / scenario.machine.peak_flops
    assert (timing.step_seconds >= least).all()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("link", ["intra_bytes_per_second", "inter_bytes_per_second_total"])
def test_a_slower_link_is_never_faster(recipe: dict[str, Any], link: str) -> None:
    layout = {"dp_shard": 8, "tp": 4, "pp": 2, "micro_batches": 4}
    fast = seconds(recipe=recipe, **layout)
    for factor in (0.9, 0.5, 0.1):
        slow = seconds(recipe=recipe, node=slower(NODE, **{link: getattr(NODE, link) * factor}), **layout)
        assert slow >= fast * (1 - 1e-12)
        fast = slow


def test_more_devices_do_no_less_work_in_total() -> None:
    counts = np.asarray([1, 2, 4, 8, 16, 32, 64])
    timing = timed(dp_shard=counts, micro_batches=64 // counts)
    total = timing.step_seconds.ravel() * counts
    assert (np.diff(total) >= -1e-9).all()


def test_stage_3_moves_one_and_a_half_times_stage_1_without_accumulation() -> None:
    recipe = {"engine": Engine.IDEAL, "precision": PRESETS["bf16-pure"]}
    moved = {
        stage: sum(v[0, 0] for v in timed(dp_shard=8, recipe=recipe | {"zero_stage": stage}).traffic_bytes.values())
        for stage in (1, 2, 3)
    }
    assert moved[1] == moved[2]
    assert moved[3] == pytest.approx(1.5 * moved[1], rel=1e-6)
    assert moved[1] == pytest.approx(2 * 2 * DENSE.parameters * 7 / 8, rel=1e-6)


def test_accumulation_multiplies_stage_3_traffic_but_not_stage_1() -> None:
    recipe = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master"]}
    one, four = (timed(dp_shard=8, micro_batches=m, recipe=recipe) for m in (1, 4))
    assert one.traffic_bytes["reduce_scatter"][0, 0] == four.traffic_bytes["reduce_scatter"][0, 0]
    one, four = (timed(dp_shard=8, micro_batches=m) for m in (1, 4))
    assert four.traffic_bytes["all_gather"][0, 0] == 4 * one.traffic_bytes["all_gather"][0, 0]


def test_tensor_parallelism_across_nodes_is_dear() -> None:
    recipe = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master"]}
    inside, across = (
        timed(recipe=recipe, tp=tp, dp_shard=32 // tp, micro_batch_size=2, micro_batches=tp) for tp in (8, 16)
    )

    def share(timing: Timing) -> float:
        lines = {row.key: float(row.seconds[0, 0]) for row in timing.lines}
        return lines["tensor_parallel"] / float(timing.step_seconds[0, 0])

    assert across.step_seconds[0, 0] > 1.3 * inside.step_seconds[0, 0]
    assert share(across) > 1.5 * share(inside)


def test_recompute_adds_a_third_of_the_products_and_no_model_flops() -> None:
    plain = timed(dp_shard=8)
    again = timed(dp_shard=8, recipe={"recompute": Recompute(mode=RecomputeMode.FULL)})
    assert again.model_flops[0, 0] == plain.model_flops[0, 0]
    assert again.hfu[0, 0] * again.step_seconds[0, 0] > plain.hfu[0, 0] * plain.step_seconds[0, 0]
    assert 1.2 < again.step_seconds[0, 0] / plain.step_seconds[0, 0] < 1.36


def test_model_flops_follow_the_published_definition() -> None:
    timing = timed(dp_shard=8, sequence_length=8192)
    weights = DENSE.parameters - 128256 * 4096 - 65 * 4096
    per_token = 6 * weights + 12 * 32 * 4096 * 8192
    assert timing.model_flops[0, 0] == pytest.approx(per_token * 8 * 8192, rel=1e-9)


def test_the_bubble_shrinks_with_virtual_stages_and_schedule() -> None:
    recipe = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master"]}
    plain = timed(recipe=recipe, pp=4, micro_batches=8).parts["pipeline_bubble"][0, 0]
    zero = timed(recipe=recipe | {"schedule": Schedule.ZERO_BUBBLE}, pp=4, micro_batches=8).parts["pipeline_bubble"]
    chunks = timed(recipe=recipe, pp=4, vpp=4, micro_batches=8).parts["pipeline_bubble"][0, 0]
    assert zero[0, 0] < plain / 2
    assert chunks < plain / 2
    assert timed(recipe=recipe, micro_batches=8).parts["pipeline_bubble"][0, 0] == 0


def test_a_mixture_computes_its_chosen_experts_only() -> None:
    moved = timed(MIXTURE, dp_shard=8, ep=8, micro_batch_size=4)
    dense = timed(dp_shard=8, micro_batch_size=4)
    assert 1.2 < moved.model_flops[0, 0] / dense.model_flops[0, 0] < 1.9
    assert moved.traffic_bytes["all_to_all"][0, 0] > 0


def test_unknown_facts_and_models_without_shape_have_no_time() -> None:
    assert np.isnan(seconds(accelerator=replace(H100, memory_bandwidth_bytes_per_second=None)))
    assert np.isnan(seconds(accelerator=replace(H100, bf16_tflops=None, fp16_tflops=None, fp32_tflops=None)))
    assert np.isnan(seconds(dp_shard=16, node=slower(NODE, inter_bytes_per_second_total=None)))
    assert np.isfinite(seconds(dp_shard=8, node=slower(NODE, inter_bytes_per_second_total=None)))
    bare = timed(model_from_count(7_000_000_000))
    assert np.isnan(bare.step_seconds).all()
    assert bare.warnings


def test_every_line_says_how_it_is_computed() -> None:
    for row in timed(dp_shard=16, pp=2, micro_batches=4).lines:
        assert row.part in PARTS
        assert row.formula, row.key


def test_the_band_encloses_the_prediction() -> None:
    timing = timed(dp_shard=8)
    low, high = timing.band
    assert (low < timing.step_seconds).all()
    assert (high > timing.step_seconds).all()


@pytest.mark.parametrize(
    ("schedule", "chunks", "waited"),
    [
        # Three other stages of one second each, before 1, 2, 4 and 8 micro-batches fill them.
        (Schedule.ONE_F_ONE_B, 1, (3, 3, 3, 3)),
        (Schedule.GPIPE, 1, (3, 3, 3, 3)),
        # m·1 + (m - 1)/v after the first has passed all four stages, as long as m <= 4.
        (Schedule.INTERLEAVED, 4, (3, 2.25, 0.75, 0.75)),
        (Schedule.ZERO_BUBBLE, 1, (2, 5 / 3, 1, 1)),
        (Schedule.DUALPIPE, 1, (2, 2 - 5 / 12, 0.75, 0.75)),
    ],
)
def test_few_micro_batches_do_not_fill_a_pipeline(schedule: Schedule, chunks: int, waited: tuple[float, ...]) -> None:
    made = scene(
        recipe={"engine": Engine.IDEAL, "zero_stage": 0, "schedule": schedule},
        pp=4,
        vpp=chunks,
        micro_batches=[1, 2, 4, 8],
    )
    clock = clock_of(made, partition_of(made), DENSE.architecture, CALIBRATION)
    found = pipeline_times(clock, np.ones((4, 4)))
    assert found.bubble.ravel().tolist() == pytest.approx(list(waited))
