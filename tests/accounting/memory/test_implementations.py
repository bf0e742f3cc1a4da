"""Whose code runs a request: stages by cost, kept logits, side streams, ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting.estimate import estimate
from accounting.facts.bands import BANDS, UNMEASURED
from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.implementation import assumed, keeps_code
from accounting.ledger import BACKWARD_MOMENTS, FORWARD_BLOCK
from accounting.memory.context import Context
from accounting.memory.loss import LOSS, logit_count, loss_law
from accounting.model import Adapter, model_from_architecture
from accounting.model.model import Model
from accounting.options import Options
from accounting.partition import partition_of
from accounting.vocabulary import Attention, Engine
from tests.accounting.step_time.scenes import DENSE, scene

NANOTRON: Mapping[str, Any] = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master-fp32grad"]}
LORA = Adapter(method="lora", rank=8, targets=("q_proj", "v_proj"), base_dtype="bf16")
LITGPT: Mapping[str, Any] = {
    "engine": Engine.DDP,
    "zero_stage": 0,
    "precision": PRESETS["bf16-pure"],
    "adapter": LORA,
    "attention": Attention.SDPA,
}
TORCHTUNE: Mapping[str, Any] = {
    "engine": Engine.FSDP2,
    "precision": PRESETS["bf16-pure"],
    "options": Options(compile=True, loss="chunked"),
}
MEGATRON_DEEPSPEED: Mapping[str, Any] = {
    "engine": Engine.MEGATRON,
    "zero_stage": 1,
    "precision": PRESETS["fp16-master"],
}
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
        (LITGPT, ("standard", "litgpt")),
        (TORCHTUNE, ("compiled", "torch")),
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


GPT = model_from_architecture(
    {
        "family": "gpt2",
        "layers": 4,
        "hidden_size": 1024,
        "heads": 16,
        "kv_heads": 16,
        "head_dim": 64,
        "ffn_size": 4096,
        "vocab_size": 50304,
        "max_positions": 2048,
        "norm": "layernorm",
        "gated_mlp": False,
        "activation": "gelu",
        "learned_positions": True,
        "tied_embeddings": True,
    }
)


@pytest.mark.parametrize(
    ("model", "recipe", "name"),
    [
        (DENSE, NANOTRON, "nanotron"),
        (DENSE, dict(NANOTRON) | {"options": Options(loss="fused")}, "Megatron-Core"),
        (GPT, MEGATRON_DEEPSPEED, "Megatron-DeepSpeed"),
        (GPT, {"engine": Engine.FSDP1}, "LLM Foundry"),
        (DENSE, LITGPT, "LitGPT"),
        (DENSE, TORCHTUNE, "torchtune"),
        (DENSE, {"engine": Engine.FSDP2}, "Hugging Face modules"),
    ],
)
def test_the_answer_names_whose_code_it_prices(model: Model, recipe: Mapping[str, Any], name: str) -> None:
    assumptions = estimate(scene(model, recipe=recipe)).row()["assumptions"]
    assert any(text.startswith(f"memory as under {name}: ") for text in assumptions)


def test_the_ideal_engine_is_nobodys_code() -> None:
    assert assumed(scene(DENSE, recipe={"engine": Engine.IDEAL, "zero_stage": 0}).recipe) == []


def test_a_fused_loss_is_another_code_base_under_megatron_alone() -> None:
    def fused(recipe: Mapping[str, Any]) -> bool:
        one = scene(DENSE, recipe=recipe).recipe
        return keeps_code(one, replace(one, options=Options(loss="fused")))

    assert not fused(NANOTRON)
    assert fused({"engine": Engine.DEEPSPEED, "precision": PRESETS["bf16-master"]})


def test_litgpt_block_by_hand() -> None:
    """Saved tensors of litgpt's own modules, hooks deduplicated by storage; CUDA's dropout mask is a byte.

    Llama's block of hidden 256, 8 heads, expert width 768 with adapters of rank 8 on q and v: 11,844 bytes a token
    measured without what the CPU keeps of the mask; 4 bytes a norm are its statistic.
    """
    shape = {"family": "llama", "layers": 1, "hidden_size": 256, "heads": 8, "kv_heads": 8, "head_dim": 32}
    model = model_from_architecture(shape | {"ffn_size": 768, "vocab_size": 1024, "max_positions": 4096})
    context = Context(scene(model, recipe=LITGPT, micro_batch_size=2, sequence_length=256))
    norms = 2 * (4 * 256 + 4)
    attention = 2 * (2 * 256) + 2 * (3 * 256) + 2 * 256 + 4 * 8
    adapters = 3 * 256 + 2 * 2 * 8 + 2 * 2 * 256
    assert int(context.blocks[0].full[0, 0]) == 512 * (norms + attention + 6 * 768 + adapters) + 24


def test_litgpt_keeps_the_inputs_of_four_bit_matrices() -> None:
    """bitsandbytes 0.42: hidden twice, the attention's output and the product, 2 bytes each."""
    quantised = dict(LITGPT) | {"adapter": replace(LORA, method="qlora", base_dtype="nf4")}
    whole, low = (Context(scene(DENSE, recipe=recipe)).blocks[0].full for recipe in (LITGPT, quantised))
    assert int((low - whole)[0, 0]) == 4096 * 2 * (2 * 4096 + 4096 + 14336)


def test_vocabulary_apart_does_not_stay_gathered() -> None:
    """torchtune's head and embedding are units of their own: two gigabytes less beside the blocks."""
    plain = dict(TORCHTUNE) | {"options": Options(compile=True)}
    apart, joint = (estimate(scene(DENSE, recipe=recipe, dp_shard=8)) for recipe in (TORCHTUNE, plain))
    rows = [
        next(row for row in found.ledger.rows if row.line.key == "buffers.gathered_units") for found in (apart, joint)
    ]
    block = [int(row.by_moment[FORWARD_BLOCK][0, 0]) for row in rows]
    assert block[1] - block[0] == 2 * (2 * 128256 * 4096 + 4096)


def test_flat_buffers_of_the_step_stand_beside_the_cache() -> None:
    """Megatron-DeepSpeed's reading holds the reduce bucket and 6 bytes a parameter of the shard beyond the backward."""
    found = estimate(scene(GPT, recipe=MEGATRON_DEEPSPEED, micro_batch_size=8, sequence_length=2048, dp_shard=2))
    elements = int(found.context.trainable_elements[0, 0])
    backward = max(int(found.ledger.totals[moment][0, 0]) for moment in BACKWARD_MOMENTS)
    beside = 2 * min(500_000_000, elements) + 6 * (-(-elements // 2))
    slack = int(found.device.slack[0, 0])
    assert int(found.device.allocated[0, 0]) == backward
    assert slack >= beside


def test_a_classifier_has_no_vocabulary_of_logits() -> None:
    bert = model_from_architecture(
        {
            "family": "bert",
            "layers": 2,
            "hidden_size": 128,
            "heads": 2,
            "kv_heads": 2,
            "head_dim": 64,
            "ffn_size": 512,
            "vocab_size": 30522,
            "max_positions": 512,
            "head": "classification",
            "extra": {"labels": 2},
        }
    )
    context = Context(scene(bert, recipe={"engine": Engine.DDP, "zero_stage": 0}, micro_batch_size=4))
    assert int(logit_count(context)[0, 0]) == 4 * 4096 * 2
