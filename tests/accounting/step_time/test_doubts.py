"""Every kind of prediction outside the measured steps says so; one inside says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from accounting.estimate import estimate
from accounting.facts.calibration import CALIBRATION
from accounting.facts.precisions import PRESETS
from accounting.step_time.reach import MEASURES
from accounting.vocabulary import Attention, Engine
from tests.accounting.step_time.scenes import H100, MIXTURE, TINY, scene, timed

CORE: dict[str, Any] = {
    "engine": Engine.MEGATRON,
    "zero_stage": 1,
    "precision": PRESETS["bf16-master-fp32grad"],
    "attention": Attention.FLASH,
}


def said(*arguments: Any, **keywords: Any) -> str:
    """What is said of the time of one scene."""
    return "; ".join(timed(*arguments, **keywords).warnings(0))


def test_a_run_like_those_that_were_measured_raises_no_doubt() -> None:
    assert said(dp_shard=8, sequence_length=8192) == ""
    assert said(dp_shard=8, sequence_length=8192, recipe={"precision": PRESETS["fp8-mixed"]}) == ""


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("no measured step of H100 PCIe", {"accelerator": replace(H100, slug="h100-pcie", name="H100 PCIe")}),
        ("2,048 devices (measured up to 1,024)", {"dp_shard": 2048}),
        ("tp 16 (measured up to 8)", {"tp": 16}),
        ("cp 16 (measured up to 1)", {"cp": 16}),
        ("pp 16 (measured up to 9)", {"pp": 16, "cp": 2, "recipe": CORE}),
        ("ep 128 (measured up to 64)", {"model": MIXTURE, "dp_shard": 128, "ep": 128}),
        ("sequences of 65,536 (measured up to 8,192)", {"sequence_length": 65536}),
        ("sequences of 512 (measured from 4,096)", {"sequence_length": 512}),
        ("micro-batches of 64 (measured up to 12)", {"micro_batch_size": 64}),
        ("parameters (measured from 8,030,261,248)", {"model": TINY}),
        ("fp32 (measured in bf16, fp8)", {"recipe": {"precision": PRESETS["fp32"]}}),
        ("predicted MFU", {"model": TINY, "sequence_length": 128}),
    ],
)
def test_what_nobody_measured_is_named(words: str, changes: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"dp_shard": 8, "sequence_length": 8192}
    assert words in said(**(usual | changes))


def test_the_efficiency_of_narrow_products_has_a_band_of_its_own() -> None:
    slow = replace(H100, fp8_tflops=100_000.0)
    assert "predicted MFU" in said(dp_shard=8, accelerator=slow, recipe={"precision": PRESETS["fp8-mixed"]})


def test_every_engine_family_says_how_far_it_reaches() -> None:
    for row in CALIBRATION.engines.values():
        assert [name for name, _, _ in row.reach] == list(MEASURES)
        assert row.computes


def test_doubts_stand_in_the_answer() -> None:
    scenario = scene(tp=16, sequence_length=8192)
    assert any("tp 16 (measured up to 8)" in warning for warning in estimate(scenario).row(0)["warnings"])
