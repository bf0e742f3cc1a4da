"""FLOP, MFU and HFU against the published definitions, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from accounting.facts.precisions import PRESETS
from accounting.model.adapters import Adapter
from accounting.options import Options
from accounting.scenario import Recompute
from accounting.step_time import Timing
from accounting.vocabulary import Engine, RecomputeMode
from tests.accounting.step_time.scenes import GPT, H100, MIXTURE, timed

LAYERS, HIDDEN, QUERY, KEY_VALUE, FFN, VOCABULARY = 32, 4096, 4096, 1024, 14336, 128256
BLOCK = HIDDEN * (QUERY + 2 * KEY_VALUE) + QUERY * HIDDEN + 3 * HIDDEN * FFN
"""Weights of a block of Llama-3-8B that are multiplied: q, k, v, o and the gated MLP; eight KV heads of 128."""
HEAD = HIDDEN * VOCABULARY
SEQUENCE, TOKENS = 4096, 4096 * 8
CORE = 12 * LAYERS * QUERY * SEQUENCE
"""A token's attention, forward and backward, no half masked (PaLM: 12·L·H·Q·T)."""


def flops(timing: Timing) -> tuple[float, float]:
    return float(timing.model_flops[0, 0]), float(timing.hardware_flops[0, 0])


def exactly(value: float) -> Any:
    return pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("layout", [{"dp_shard": 8}, {"tp": 8, "micro_batches": 8}, {"tp": 16, "micro_batches": 8}])
def test_grouped_queries_count_their_own_projections_on_any_layout(layout: dict[str, Any]) -> None:
    # Sixteen ranks each hold a copy of one of eight KV heads: work of the layout, not of the model.
    expected = (6 * (LAYERS * BLOCK + HEAD) + CORE) * TOKENS
    recipe = {} if "dp_shard" in layout else {"engine": Engine.MEGATRON, "zero_stage": 0}
    assert flops(timed(**layout, recipe=recipe)) == exactly((expected, expected))


def test_a_token_of_a_mixture_meets_its_chosen_experts_however_they_are_loaded() -> None:
    block = HIDDEN * (QUERY + 2 * KEY_VALUE) + QUERY * HIDDEN + 8 * HIDDEN + 2 * 3 * HIDDEN * FFN
    expected = (6 * (LAYERS * block + HIDDEN * 32000) + CORE) * TOKENS
    for imbalance in (1.0, 2.0):
        options = Options(expert_imbalance=imbalance)
        assert flops(timed(MIXTURE, dp_shard=8, ep=8, recipe={"options": options})) == exactly((expected, expected))


@pytest.mark.parametrize("tp", [1, 8])
def test_full_recomputation_is_korthikantis_hardware_flops(tp: int) -> None:
    layers, hidden, sequence, vocabulary = 24, 2048, 2048, 51200
    recipe = {"engine": Engine.MEGATRON, "zero_stage": 0, "recompute": Recompute(mode=RecomputeMode.FULL)}
    model, hardware = flops(timed(GPT, tp=tp, sequence_length=sequence, recipe=recipe))
    share = sequence / (6 * hidden)
    unit = sequence * layers * hidden**2
    assert model == exactly(72 * unit * (1 + share + vocabulary / (12 * layers * hidden)))
    assert hardware == exactly(96 * unit * (1 + share + vocabulary / (16 * layers * hidden)))


def test_selective_recomputation_adds_the_attention_core_once() -> None:
    recipe = {"recompute": Recompute(mode=RecomputeMode.SELECTIVE)}
    model, hardware = flops(timed(dp_shard=8, recipe=recipe))
    assert hardware - model == pytest.approx(CORE / 3 * TOKENS, rel=1e-9)


def test_a_frozen_weight_has_no_gradient_to_count() -> None:
    rank = 16
    adapter = Adapter(method="lora", rank=rank, targets="attention")
    sides = (HIDDEN + QUERY) + 2 * (HIDDEN + KEY_VALUE) + (QUERY + HIDDEN)
    expected = (4 * (LAYERS * BLOCK + HEAD) + 6 * LAYERS * rank * sides + CORE) * TOKENS
    assert flops(timed(dp_shard=8, recipe={"adapter": adapter})) == exactly((expected, expected))


@pytest.mark.parametrize(
    ("precision", "peak"),
    [("bf16-mixed", "bf16_tflops"), ("fp8-master", "fp8_tflops"), ("fp32", "fp32_tflops")],
)
def test_the_denominator_is_the_dense_peak_of_what_computes(precision: str, peak: str) -> None:
    timing = timed(dp_shard=8, recipe={"engine": Engine.FSDP2, "precision": PRESETS[precision]})
    rate = 8 * getattr(H100, peak) * 1e12 * timing.step_seconds[0, 0]
    assert timing.mfu[0, 0] == exactly(timing.model_flops[0, 0] / rate)
    assert timing.hfu[0, 0] == exactly(timing.hardware_flops[0, 0] / rate)


def test_the_whole_model_counts_whatever_stage_is_slowest() -> None:
    recipe = {"engine": Engine.MEGATRON, "zero_stage": 0}
    expected = flops(timed(recipe=recipe, micro_batches=8))
    for layout in ({"pp": 4}, {"pp": 4, "vpp": 2}, {"cp": 4}, {"pp": 3}):
        assert flops(timed(recipe=recipe, micro_batches=8, **layout)) == exactly(expected)
