"""Adapters: trainable counts as libraries print them, and what is frozen, fused, saved or tied."""

import json
from pathlib import Path
from typing import Any

import pytest

from accounting.model import Adapter, ConfigError, Model, adapted, model_from_config

DATA = Path(__file__).parent / "data"
PRINTED = [json.loads(line) for line in (DATA / "trainable.jsonl").read_text().splitlines()]
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 160,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}
GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 32, "vocab_size": 100}


def under(config: dict[str, Any], **fields: Any) -> tuple[Model, Any]:
    model = model_from_config(config)
    assert model.inventory is not None
    assert model.architecture is not None
    return model, adapted(model.inventory, model.architecture, Adapter(**{"method": "lora", "rank": 4, **fields}))


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row["name"])
def test_trainable_parameters_as_printed_by_real_runs(row: dict[str, Any]) -> None:
    narrowed = row["options"].get("target_modules")
    _, result = under(
        row["config"],
        method=row["adapter"]["method"],
        rank=row["adapter"]["rank"],
        targets=row["adapter"]["targets"],
        target_modules=tuple(narrowed) if narrowed else None,
    )
    assert result.trainable_parameters == row["trainable_parameters"]


def test_the_base_is_frozen_and_whole() -> None:
    model, result = under(LLAMA)
    assert result.base_parameters == model.parameters
    assert result.trainable_parameters == result.adapter_parameters
    assert all(tensor.trainable == tensor.adapter for tensor, _ in result.inventory.all_tensors())


def test_all_linear_leaves_the_head_alone() -> None:
    _, result = under(LLAMA)
    per_block = 4 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 160))
    assert result.trainable_parameters == 2 * per_block


def test_dora_adds_a_magnitude_per_output() -> None:
    _, lora = under(LLAMA)
    _, dora = under(LLAMA, method="dora")
    assert dora.trainable_parameters - lora.trainable_parameters == 2 * (64 + 32 + 32 + 64 + 160 + 160 + 64)


def test_a_fused_matrix_gets_one_adapter_where_all_its_parts_are_targets() -> None:
    _, result = under(GPT2, targets="attention")
    assert result.trainable_parameters == 2 * 4 * ((64 + 192) + (64 + 64))
    assert result.warnings == ()


def test_a_fused_matrix_can_be_named_as_the_class_names_it() -> None:
    _, result = under(GPT2, targets=("c_attn",))
    shapes = {tensor.name: tensor.shape for tensor, _ in result.inventory.all_tensors() if tensor.adapter}
    assert shapes == {"attn.c_attn.lora_A": (4, 64), "attn.c_attn.lora_B": (192, 4)}


def test_part_of_a_fused_matrix_is_counted_on_its_own_outputs_with_a_warning() -> None:
    _, result = under(GPT2, targets=("q_proj", "v_proj"))
    assert result.trainable_parameters == 2 * 2 * 4 * (64 + 64)
    assert "fuses" in result.warnings[0]


def test_saved_modules_are_copies_beside_the_frozen_original() -> None:
    model, plain = under(LLAMA)
    _, result = under(LLAMA, modules_to_save=("embed_tokens", "lm_head"))
    assert result.trainable_parameters - plain.trainable_parameters == 2 * 1000 * 64
    assert result.base_parameters == model.parameters


def test_saving_a_tied_head_breaks_the_tie() -> None:
    tied = {**LLAMA, "tie_word_embeddings": True}
    model, plain = under(tied)
    _, result = under(tied, modules_to_save=("lm_head",))
    assert result.trainable_parameters - plain.trainable_parameters == 1000 * 64
    assert result.base_parameters == model.parameters


def test_a_tied_head_can_be_a_target() -> None:
    _, result = under({**LLAMA, "tie_word_embeddings": True}, targets=("lm_head",))
    assert result.trainable_parameters == 4 * (64 + 1000)


def test_an_embedding_is_adapted_over_its_rows() -> None:
    _, result = under(LLAMA, targets=("embed_tokens",))
    assert result.trainable_parameters == 4 * (1000 + 64)


def test_experts_get_an_adapter_each_and_stay_expert_tensors() -> None:
    mixtral = {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    _, result = under(mixtral, targets=("down_proj",))
    assert result.trainable_parameters == 2 * 8 * 4 * (160 + 64)
    assert all(tensor.expert for tensor, _ in result.inventory.all_tensors() if tensor.adapter)
    assert "experts" in result.warnings[0]


def test_tensor_parallelism_cuts_the_side_of_the_adapter_that_the_matrix_cuts() -> None:
    _, result = under(LLAMA, targets=("q_proj", "o_proj"))
    cuts = {tensor.name: tensor.tensor_parallel_dim for tensor, _ in result.inventory.all_tensors() if tensor.adapter}
    assert cuts == {
        "self_attn.q_proj.lora_A": None,
        "self_attn.q_proj.lora_B": 0,
        "self_attn.o_proj.lora_A": 1,
        "self_attn.o_proj.lora_B": None,
    }


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        ({"targets": "everything"}, ["/adapter/targets"]),
        ({"targets": ("q_prj", "v_proj", "up")}, ["/adapter/targets/0", "/adapter/targets/2"]),
        ({"targets": "attention", "target_modules": ("q_proj", "up_proj")}, ["/options/target_modules/1"]),
        ({"targets": "attention", "target_modules": ("wq",)}, ["/options/target_modules/0"]),
        ({"modules_to_save": ("score",)}, ["/options/modules_to_save/0"]),
        ({"method": "ia3", "rank": 0}, ["/adapter/method", "/adapter/rank"]),
    ],
)
def test_faults_come_all_at_once_with_pointers(fields: dict[str, Any], pointers: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        under(LLAMA, **fields)
    assert [fault.pointer for fault in error.value.faults] == pointers
