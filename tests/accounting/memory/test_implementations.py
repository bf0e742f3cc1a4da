"""Whose code runs a request: stages by cost, kept logits, side streams, ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from accounting.estimate import estimate
from accounting.facts.bands import BANDS, UNMEASURED
from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.memory.context import Context
from accounting.memory.loss import LOSS, loss_law
from accounting.model import model_from_architecture
from accounting.options import Options
from accounting.partition import partition_of
from accounting.vocabulary import Engine
from tests.accounting.step_time.scenes import DENSE, scene

NANOTRON: Mapping[str, Any] = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master-fp32grad"]}
ONE_BILLION = model_from_architecture(
    {
        "family": "llama",
        "layers": 16,
        "hidden_size": 2048,
        "heads": 32,
        "kv_heads": 32,
        "head_dim": 64,
        "ffn_size": 8192,
        "vocab_size": 131072,
        "max_positions": 4096,
    }
)


@pytest.mark.parametrize(
    ("stages", "blocks"), [(1, [16]), (2, [11, 5]), (4, [6, 5, 5, 0]), (8, [3, 3, 2, 3, 2, 3, 0, 0])]
)
def test_stages_are_closed_by_running_cost(stages: int, blocks: list[int]) -> None:
    """A 131k vocabulary weighs four blocks of this model: the running sum of costs, counted by hand."""
    layers = partition_of(scene(ONE_BILLION, recipe=NANOTRON, pp=stages)).layers
    assert layers.tolist() == [blocks]


def test_named_kernels_spread_blocks_evenly() -> None:
    recipe = dict(NANOTRON) | {"options": Options(loss="fused")}
    assert partition_of(scene(ONE_BILLION, recipe=recipe, pp=4)).layers.tolist() == [[4, 4, 4, 4]]


def test_collectives_wait_only_without_a_pipeline() -> None:
    """Two gather buffers in a pipeline, more without one, none without tensor parallelism."""
    found = estimate(scene(ONE_BILLION, recipe=NANOTRON, tp=[1, 4, 4], pp=[1, 1, 2], micro_batches=4))
    row = next(row for row in found.ledger.rows if row.line.key == "buffers.tensor_parallel")
    held = next(iter(row.by_moment.values()))[:, 0]
    one = 4096 * 2048 * 2
    assert held.tolist() == [0, one * 30, one * 2]


@pytest.mark.parametrize(
    ("recipe", "row"),
    [
        ({"engine": Engine.FSDP2}, ("standard", "torch")),
        ({"engine": Engine.FSDP2, "options": Options(compile=True)}, ("standard", "compiled")),
        ({"engine": Engine.FSDP1}, ("standard", "outputs")),
        ({"engine": Engine.DDP, "zero_stage": 0}, ("standard", "accelerate")),
        ({"engine": Engine.DEEPSPEED, "precision": PRESETS["bf16-master"]}, ("standard", "outputs")),
        ({"engine": Engine.DDP, "zero_stage": 0, "options": Options(loss="chunked")}, ("chunked", "torch")),
        (NANOTRON, ("standard", "modules")),
        (dict(NANOTRON) | {"options": Options(loss="fused")}, ("fused", "megatron")),
    ],
)
def test_who_keeps_the_logits(recipe: Mapping[str, Any], row: tuple[str, str]) -> None:
    context = Context(scene(DENSE, recipe=recipe))
    assert loss_law(context.recipe, context.numerics) == LOSS[row]


def test_liger_brings_its_norms_and_mlp() -> None:
    """Fused loss on Hugging Face modules: less than the loss alone could save."""
    plain = {"engine": Engine.DEEPSPEED, "precision": PRESETS["bf16-master"]}
    held = [
        estimate(scene(DENSE, recipe=plain | {"options": Options(loss=loss)})).context.stage.held[0, 0]
        for loss in ("standard", "fused")
    ]
    # Per token and block: 4 · hidden less for each of two norms, one of four MLP tensors less.
    assert held[0] - held[1] == 32 * 4096 * (2 * 4 * 4096 + 2 * 14336)


def test_paged_states_wait_on_the_host() -> None:
    paged, plain = (
        estimate(scene(DENSE, recipe={"engine": Engine.DDP, "zero_stage": 0, "optimizer": find_optimizer(name)}))
        for name in ("paged-adamw-8bit", "adamw-8bit")
    )
    moved = plain.peak_allocated_bytes - paged.peak_allocated_bytes
    assert int(moved[0, 0]) > 2 * 7 * 10**9


def test_the_range_holds_the_answer() -> None:
    found = estimate(scene(DENSE, recipe=NANOTRON, tp=[1, 8, 16, 32], pp=[1, 2, 2, 1]))
    assert np.all(found.device_bytes_low < found.device_bytes)
    assert np.all(found.device_bytes < found.device_bytes_high)


def test_every_range_names_its_runs() -> None:
    assert all(row.runs >= 10 and row.low < row.high for row in BANDS.values())
    assert UNMEASURED.runs == 0
