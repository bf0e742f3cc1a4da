"""Rules of a layout: one fitting and one failing candidate each, alone and among many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting.constraints import RULES, broken_rules, facts, reasons
from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.model import Model, model_from_architecture, model_from_count
from accounting.options import Options
from accounting.scenario import Layout, Recipe, column
from accounting.vocabulary import Attention, Engine, Schedule

DENSE = {
    "family": "llama",
    "layers": 32,
    "hidden_size": 4096,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "ffn_size": 14336,
    "gated_mlp": True,
    "vocab_size": 128256,
    "max_positions": 8192,
    "tied_embeddings": False,
    "norm": "rmsnorm",
}
MODEL = model_from_architecture(DENSE)
MIXTURE = model_from_architecture(
    {**DENSE, "family": "mixtral", "moe": {"experts": 8, "top_k": 2, "expert_ffn_size": 14336}}
)


def recipe_of(model: Model = MODEL, **changes: Any) -> Recipe:
    recipe = Recipe(model=model, precision=PRESETS["bf16-mixed"], optimizer=find_optimizer("adamw"))
    return replace(recipe, **changes)


def layout_of(**changes: Any) -> Layout:
    numbers = dict.fromkeys(
        ("dp_replicate", "dp_shard", "tp", "cp", "pp", "vpp", "ep", "micro_batches", "micro_batch_size"), 1
    )
    numbers |= {"sequence_length": 4096} | {
        name: value for name, value in changes.items() if name != "sequence_parallel"
    }
    degrees = (numbers[name] for name in ("dp_replicate", "dp_shard", "tp", "cp", "pp"))
    product = 1
    for degree in degrees:
        product = product * degree
    numbers.setdefault("count", product)
    numbers.setdefault("etp", numbers["tp"])
    parallel = column(changes.get("sequence_parallel", False), np.bool_)
    return Layout(**{name: column(value) for name, value in numbers.items()}, sequence_parallel=parallel)


MEGATRON_FSDP = {"engine": Engine.MEGATRON, "zero_stage": 2}
CASES: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("product_mismatch", "/parallelism", {}, {"count": 3, "dp_shard": 2}),
    ("not_a_divisor", "/parallelism/tp", {}, {"tp": 3}),
    ("not_a_divisor", "/batch/sequence_length", {}, {"tp": 2, "sequence_parallel": True, "sequence_length": 4095}),
    ("cp_beyond_sequence", "/parallelism/cp", {}, {"cp": 8, "sequence_length": 4}),
    ("not_a_divisor", "/options/cp_comm_type", {"options": Options(cp_comm_type="a2a")}, {"cp": 64}),
    ("no_experts", "/parallelism/ep", {}, {"ep": 2, "dp_shard": 2}),
    ("not_a_divisor", "/parallelism/ep", {"model": MIXTURE}, {"ep": 3, "dp_shard": 3}),
    ("not_a_divisor", "/parallelism/ep", {"model": MIXTURE}, {"ep": 8, "dp_shard": 4}),
    ("more_stages_than_layers", "/parallelism/pp", {}, {"pp": 33}),
    ("more_stages_than_layers", "/parallelism/vpp", {"schedule": Schedule.INTERLEAVED}, {"pp": 16, "vpp": 3}),
    ("pipeline_needs_layers", "/parallelism/pp", {"model": model_from_count(7)}, {"pp": 2}),
    ("layout_length", "/pipeline/layout", {"stage_layers": (16, 16)}, {"pp": 1}),
    ("layout_sum", "/pipeline/layout", {"stage_layers": (16, 15)}, {"pp": 2}),
    ("schedule_mismatch", "/pipeline/schedule", {"schedule": Schedule.INTERLEAVED}, {"pp": 2}),
    ("stage_unsupported", "/sharding/zero_stage", {"engine": Engine.DDP}, {}),
    ("nothing_sharded", "/parallelism/dp_shard", {"engine": Engine.DDP, "zero_stage": 0}, {"dp_shard": 2}),
    ("pipeline_with_sharded_gradients", "/sharding/zero_stage", {"engine": Engine.DEEPSPEED}, {"pp": 2}),
    ("pipeline_with_sharded_gradients", "/sharding/zero_stage", MEGATRON_FSDP, {"pp": 2}),
    ("precision_unsupported", "/precision", MEGATRON_FSDP, {}),
    (
        "step_in_backward_with_accumulation",
        "/options/optimizer_in_backward",
        {"options": Options(optimizer_in_backward=True)},
        {"micro_batches": 2},
    ),
    ("too_large", "/batch", {"attention": Attention.EAGER}, {"sequence_length": 1 << 27}),
)


@pytest.mark.parametrize(("key", "field", "recipe", "layout"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_a_broken_rule_is_named_and_its_sentence_complete(
    key: str, field: str, recipe: dict[str, Any], layout: dict[str, Any]
) -> None:
    asked, columns = recipe_of(**recipe), layout_of(**layout)
    rules = broken_rules(int(reasons(asked, columns)[0, 0]))
    assert (key, field) in [(rule.key, rule.field) for rule in rules]
    for rule in rules:
        assert "None" not in rule.message.format(**facts(asked, columns))


def test_every_rule_has_a_case() -> None:
    seen: set[int] = set()
    for _, _, recipe, layout in CASES:
        bits = int(reasons(recipe_of(**recipe), layout_of(**layout))[0, 0])
        seen |= {index for index in range(len(RULES)) if bits >> index & 1}
    alone = int(
        reasons(recipe_of(model_from_architecture({**DENSE, "heads": 24, "kv_heads": 8})), layout_of(tp=12))[0, 0]
    )
    seen |= {index for index in range(len(RULES)) if alone >> index & 1}
    assert seen == set(range(len(RULES)))


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"dp_shard": 8, "tp": 8, "sequence_parallel": True},
        {"tp": 32},
        {"cp": 4},
        {"pp": 12},
        {"dp_replicate": 4, "dp_shard": 16},
    ],
)
def test_layouts_that_run_break_nothing(layout: dict[str, Any]) -> None:
    assert int(reasons(recipe_of(), layout_of(**layout))[0, 0]) == 0


def test_a_bare_count_is_judged_by_what_it_has() -> None:
    assert int(reasons(recipe_of(model_from_count(7)), layout_of(tp=3, dp_shard=5))[0, 0]) == 0


def test_many_candidates_are_judged_as_each_alone() -> None:
    random = np.random.default_rng(7)
    size = 300
    drawn = {name: random.choice([1, 2, 3, 4, 8, 16], size) for name in ("dp_shard", "tp", "cp", "pp", "ep")}
    recipe = recipe_of(MIXTURE, options=Options(cp_comm_type="a2a"))
    together = reasons(recipe, layout_of(**drawn))
    assert together.shape == (size, 1)
    assert together.dtype == np.int64
    for row in range(size):
        alone = reasons(recipe, layout_of(**{name: int(values[row]) for name, values in drawn.items()}))
        assert alone[0, 0] == together[row, 0]
    assert len(np.unique(together)) > 5
