"""The tensors themselves: shapes as the classes hold them, what is fused, what tensor parallelism cuts."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from accounting.model import Inventory, Tensor, known_types, model_from_config

CONFIGS = Path(__file__).parent / "data" / "configs"

COMPLETE: dict[str, Any] = {
    "num_hidden_layers": 8,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 1000,
    "max_position_embeddings": 128,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 48,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "ffn_dim": 512,
    "d_model": 256,
    "d_ff": 512,
    "n_layers": 8,
    "n_heads": 8,
    "num_layers": 8,
    "num_heads": 8,
    "n_positions": 128,
    "projection_dim": 64,
}
"""Every size under every name; each family takes its own."""


def inventory(name: str) -> Inventory:
    held = model_from_config(json.loads((CONFIGS / f"{name}.json").read_text())).inventory
    assert held is not None
    return held


def block(name: str, kind: int = 0) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in inventory(name).kinds[kind].tensors}


def complete_config(model_type: str) -> dict[str, Any]:
    config = {**COMPLETE, "model_type": model_type}
    if model_type in ("mixtral", "gpt_oss", "llama4", "llama4_text"):
        config["num_local_experts"] = config.pop("num_experts")
    if model_type == "clip":
        return {**config, "vision_config": dict(COMPLETE), "text_config": dict(COMPLETE)}
    return config


@pytest.mark.parametrize("model_type", known_types())
def test_every_known_type_reads_a_complete_config(model_type: str) -> None:
    model = model_from_config(complete_config(model_type))
    assert model.inventory is not None
    assert model.architecture is not None
    layers = 16 if model.architecture.encoder is not None else 8
    assert len(model.inventory.pattern) == layers
    for place in (*(kind.tensors for kind in model.inventory.kinds), model.inventory.first + model.inventory.last):
        names = Counter(tensor.name for tensor in place)
        assert max(names.values()) == 1, names
    for tensor, _ in model.inventory.all_tensors():
        assert tensor.parameters > 0
        if tensor.tensor_parallel_dim is not None:
            assert tensor.tensor_parallel_dim < len(tensor.shape)
        if tensor.parts:
            assert sum(width for _, width in tensor.parts) == tensor.shape[1 - tensor.input_dim]


def test_gpt2_holds_its_matrices_transposed_and_fused() -> None:
    tensors = block("real_gpt2")
    assert tensors["attn.c_attn.weight"].shape == (768, 2304)
    assert tensors["attn.c_attn.weight"].tensor_parallel_dim == 1
    assert tensors["attn.c_attn.weight"].parts == (("q_proj", 768), ("k_proj", 768), ("v_proj", 768))
    assert tensors["attn.c_attn.bias"].shape == (2304,)
    assert tensors["mlp.c_proj.weight"].shape == (3072, 768)
    assert tensors["mlp.c_proj.weight"].tensor_parallel_dim == 0
    assert tensors["mlp.c_proj.bias"].tensor_parallel_dim is None


def test_llama_holds_outputs_first() -> None:
    tensors = block("real_llama-3.1-8b")
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        "self_attn.q_proj.weight": (4096, 4096),
        "self_attn.k_proj.weight": (1024, 4096),
        "self_attn.v_proj.weight": (1024, 4096),
        "self_attn.o_proj.weight": (4096, 4096),
        "mlp.gate_proj.weight": (14336, 4096),
        "mlp.up_proj.weight": (14336, 4096),
        "mlp.down_proj.weight": (4096, 14336),
        "input_layernorm.weight": (4096,),
        "post_attention_layernorm.weight": (4096,),
    }
    assert tensors["self_attn.q_proj.weight"].tensor_parallel_dim == 0
    assert tensors["self_attn.o_proj.weight"].tensor_parallel_dim == 1


def test_glm_fuses_gate_and_up() -> None:
    tensors = block("built_glm-4-9b")
    assert tensors["mlp.gate_up_proj.weight"].shape == (2 * 13696, 4096)
    assert tensors["mlp.gate_up_proj.weight"].words == ("gate_proj", "up_proj")


def test_experts_are_copies_of_their_own_matrices() -> None:
    tensors = block("real_mixtral-8x7b")
    up = tensors["mlp.experts.up_proj.weight"]
    assert (up.shape, up.count, up.expert) == ((14336, 4096), 8, True)
    router = tensors["mlp.gate.weight"]
    assert (router.shape, router.role, router.linear) == ((8, 4096), "router", False)


def test_gpt_oss_holds_sinks_and_expert_biases() -> None:
    tensors = block("real_gpt-oss-20b")
    assert tensors["self_attn.sinks"].shape == (64,)
    assert tensors["mlp.experts.down_proj.bias"].shape == (2880,)
    assert tensors["mlp.experts.down_proj.bias"].count == 32
    assert tensors["mlp.router.bias"].shape == (32,)


def test_latent_attention_goes_through_low_ranks() -> None:
    tensors = block("real_deepseek-v3", 1)
    assert tensors["self_attn.kv_a_proj_with_mqa.weight"].shape == (512 + 64, 7168)
    assert tensors["self_attn.kv_b_proj.weight"].shape == (128 * 256, 512)
    assert tensors["self_attn.o_proj.weight"].shape == (7168, 128 * 128)
    assert tensors["mlp.shared_experts.up_proj.weight"].role == "mlp"


def test_tied_heads_stand_once_and_untied_ones_twice() -> None:
    assert [tensor.role for tensor in inventory("real_llama-3.2-1b").last] == ["norm"]
    assert [tensor.role for tensor in inventory("real_llama-3.1-8b").last] == ["norm", "head"]


def test_only_block_matrices_are_quantisable() -> None:
    held = inventory("real_llama-3.1-8b")
    assert not any(tensor.quantisable for tensor in held.first + held.last)
    assert sum(tensor.quantisable for tensor in held.kinds[0].tensors) == 7


def test_windows_stand_on_their_kinds() -> None:
    held = inventory("real_gemma2-9b")
    assert [(kind.attention, kind.window) for kind in held.kinds] == [("sliding", 4096), ("full", None)]
    assert held.pattern == (0, 1) * 21
