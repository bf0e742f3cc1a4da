"""A candidate answered alone and the same candidate among a thousand: the same bytes, in every recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from accounting.estimate import need_of
from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.options import Options
from accounting.scenario import Offload, Recompute
from accounting.vocabulary import Attention, Engine, Place, RecomputeMode, Schedule
from tests.accounting.step_time.scenes import DENSE, MIXTURE, scene

ROWS = 1000
MEGATRON: Mapping[str, Any] = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master-fp32grad"]}
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "torch modules": MEGATRON,
    "Megatron-Core": MEGATRON
    | {"options": Options(loss="fused"), "recompute": Recompute(mode=RecomputeMode.SELECTIVE)},
    "interleaved": MEGATRON | {"options": Options(loss="fused"), "schedule": Schedule.INTERLEAVED},
    "FSDP2": {"recompute": Recompute(mode=RecomputeMode.FULL, every=3)},
    "FSDP1 eager": {"engine": Engine.FSDP1, "zero_stage": 2, "attention": Attention.EAGER},
    "DeepSpeed 3": {
        "engine": Engine.DEEPSPEED,
        "precision": PRESETS["bf16-master"],
        "offload": Offload(optimizer=Place.CPU),
        "options": Options(loss="chunked"),
    },
    "DeepSpeed 2": {"engine": Engine.DEEPSPEED, "zero_stage": 2, "precision": PRESETS["bf16-master"]},
    "DDP 8-bit": {"engine": Engine.DDP, "zero_stage": 0, "optimizer": find_optimizer("adamw-8bit")},
}


def columns(recipe: Mapping[str, Any], mixture: bool) -> dict[str, Any]:
    """Random layouts: powers of two, uneven pipelines, any batch."""
    random = np.random.default_rng(7)
    tensor_parallel = recipe.get("engine") is Engine.MEGATRON
    pipeline = tensor_parallel and not mixture
    interleaved = recipe.get("schedule") is Schedule.INTERLEAVED
    return {
        "tp": 2 ** random.integers(0, 4, ROWS) if tensor_parallel else 1,
        "pp": random.choice([1, 2, 3, 4, 6, 8], ROWS) if pipeline else 1,
        "vpp": random.integers(1, 4, ROWS) if interleaved else 1,
        "dp_shard": 2 ** random.integers(0, 6, ROWS),
        "sequence_length": random.integers(1, 9, ROWS) * 1024,
        "micro_batch_size": random.integers(1, 9, ROWS),
        "micro_batches": random.integers(1, 33, ROWS),
    }


@pytest.mark.parametrize("model", [DENSE, MIXTURE], ids=["dense", "mixture"])
@pytest.mark.parametrize("name", RECIPES)
def test_a_row_alone_is_the_row_among_many(name: str, model: Any) -> None:
    recipe = RECIPES[name]
    many = scene(model, recipe=recipe, **columns(recipe, model is MIXTURE))
    together = need_of(many)
    for index in range(0, ROWS, 83):
        alone = need_of(many.take(slice(index, index + 1)))
        for part in ("expected", "upper", "host_per_rank"):
            assert int(getattr(alone, part)[0, 0]) == int(getattr(together, part)[index, 0]), (name, index, part)
