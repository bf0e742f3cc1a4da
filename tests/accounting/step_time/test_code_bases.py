"""Which constants a request's code base and device take, and what each of them does to a term."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from accounting.facts.calibration import CALIBRATION, engine_families
from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.implementation import assumed
from accounting.options import Options
from accounting.partition import partition_of
from accounting.step_time import step_time
from accounting.step_time.clock import kernel_styles
from accounting.vocabulary import Attention, Engine
from tests.accounting.step_time.scenes import H100, MIXTURE, scene, timed

MEGATRON: dict[str, Any] = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master-fp32grad"]}
ADAM = {"optimizer": find_optimizer("adam")}
V100 = replace(
    H100,
    slug="v100-sxm2-32gb",
    name="V100-SXM2-32GB",
    architecture="Volta",
    fp32_tflops=15.7,
    tf32_tflops=None,
    fp16_tflops=125.0,
    bf16_tflops=None,
    fp8_tflops=None,
    measured_max_bf16_tflops=None,
    memory_bandwidth_bytes_per_second=900e9,
    supports_bf16=False,
    supports_fp8=False,
    compute_capability="7.0",
)
"""T4, RTX 20xx and P100 list the same: fp16 and fp32, no bf16."""


@pytest.mark.parametrize(
    ("changes", "family"),
    [
        ({}, "megatron"),
        (ADAM, "megatron-core"),
        (ADAM | {"attention": Attention.EAGER}, "megatron-lm"),
        (ADAM | {"options": Options(fused_norm=False)}, "megatron"),
        ({"options": Options(fused_norm=True)}, "megatron-core"),
        ({"options": Options(fused_norm=True), "attention": Attention.EAGER}, "megatron-lm"),
        ({"options": Options(loss="fused", fused_norm=False)}, "megatron-core"),
        ({"precision": PRESETS["fp8-master"]}, "megatron-core"),
    ],
)
def test_a_field_that_names_the_code_base_wins_over_the_optimizers_spelling(
    changes: dict[str, Any], family: str
) -> None:
    assert engine_families(scene(recipe=MEGATRON | changes))[0] == family


def test_mixtures_are_nvidias_own() -> None:
    assert engine_families(scene(MIXTURE, recipe=MEGATRON))[0] == "megatron-core"


def test_kernels_follow_the_code_base() -> None:
    assert kernel_styles(scene(recipe=MEGATRON | ADAM | {"attention": Attention.EAGER})) == ("megatron-lm", "core")


def test_the_guess_is_said_and_only_where_it_is_one() -> None:
    def said(changes: dict[str, Any]) -> list[str]:
        return [row for row in assumed(scene(recipe=MEGATRON | changes).recipe) if row.startswith("time ")]

    assert "spelled adam; options.fused_norm=false" in said(ADAM)[0]
    assert "not spelled adam; options.fused_norm=true" in said({})[0]
    assert said({"options": Options(fused_norm=True)}) == said({"options": Options(fused_norm=False)}) == []


@pytest.mark.parametrize("preset", ["bf16-mixed", "bf16-master"])
def test_bf16_without_units_for_it_is_computed_through_fp32(preset: str) -> None:
    recipe = {"engine": Engine.DDP, "zero_stage": 0}
    names = (preset, preset.replace("bf16", "fp16"))
    bf16, fp16 = (timed(accelerator=V100, recipe=recipe | {"precision": PRESETS[name]}) for name in names)
    seconds = {line.key: float(line.seconds[0, 0]) for line in bf16.lines}
    products = 2 * 4096 * 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert seconds["matmul.forward"] > products / 15.7e12
    assert bf16.step_seconds[0, 0] > 3 * fp16.step_seconds[0, 0]
    assert 0.3 < bf16.mfu[0, 0] < 1
    assert any("no bf16 units" in row and "15.7 TFLOP/s" in row for row in bf16.warnings(0))
    assert not any("units" in row for row in fp16.warnings(0))


def test_tf32_runs_at_its_own_rate() -> None:
    fast, slow = (
        timed(recipe={"precision": replace(PRESETS["fp32"], compute=compute)}).parts["compute"][0, 0]
        for compute in ("tf32", "fp32")
    )
    assert slow > 3 * fast


def test_a_ring_pays_for_its_partial_outputs_and_all_to_alls_do_not() -> None:
    def elementwise(cp: int, kind: str | None) -> float:
        recipe = MEGATRON | {"options": Options(fused_norm=True, cp_comm_type=kind)}
        found = timed(recipe=recipe, cp=cp, sequence_length=4096 * cp)
        return next(float(line.seconds[0, 0]) for line in found.lines if line.key == "elementwise.forward")

    assert elementwise(4, "a2a") == pytest.approx(elementwise(1, None))
    assert elementwise(2, None) > elementwise(1, None)
    extra = [elementwise(cp, None) - elementwise(1, None) for cp in (2, 4)]
    assert extra[1] == pytest.approx(2 * extra[0])


def test_deepspeeds_bf16_optimizer_sends_gradients_whole_between_stages() -> None:
    bloom = {"family": "bloom", "norm": "layernorm", "gated_mlp": False}
    model = replace(scene().recipe.model, architecture=replace(scene().recipe.model.architecture, **bloom))  # type: ignore[arg-type, type-var]

    def sent(precision: str) -> float:
        scenario = scene(model, recipe=MEGATRON | {"precision": PRESETS[precision]}, tp=4, pp=2, micro_batches=8)
        plain = replace(scenario, layout=replace(scenario.layout, sequence_parallel=scenario.layout.tp > 8))
        moved = step_time(plain, partition_of(plain)).traffic_bytes
        return float(moved["point_to_point"][0, 0])

    assert sent("bf16-master-fp32grad") == pytest.approx(2.5 * sent("fp16-master"))


def test_gradient_buckets_cost_the_host_time_only_where_they_are_shared() -> None:
    def once(bucket: float, **columns: int) -> float:
        scenario = scene(recipe=MEGATRON, **columns)
        row = replace(CALIBRATION.engines["megatron"], host_bucket_seconds=bucket)
        changed = replace(CALIBRATION, engines={**CALIBRATION.engines, "megatron": row})
        return float(step_time(scenario, partition_of(scenario), changed).step_seconds[0, 0])

    def hooks(**columns: int) -> float:
        return once(1e-3, **columns) - once(0.0, **columns)

    assert hooks(dp_shard=1) == 0
    parameters = scene().recipe.model.parameters
    assert hooks(dp_shard=2) == pytest.approx(parameters * 2 / 25e6 * 1e-3, rel=0.02)
    assert hooks(dp_shard=2, tp=8) == pytest.approx(hooks(dp_shard=2) / 8, rel=0.02)
