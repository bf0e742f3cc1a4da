"""The contract's `architecture` object: the same discipline, and the same counts, as a config.json."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.model import ConfigError, model_from_architecture, model_from_config, read_architecture
from accounting.model.fields import FIELDS

LLAMA: dict[str, Any] = {
    "family": "llama",
    "layers": 32,
    "hidden_size": 4096,
    "heads": 32,
    "kv_heads": 8,
    "ffn_size": 14336,
    "vocab_size": 128256,
}
MIXTURE = {"experts": 8, "top_k": 2, "expert_ffn_size": 14336}
LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}


def faults_of(fields: Any) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as error:
        read_architecture(fields)
    return [(fault.pointer, fault.code) for fault in error.value.faults]


def test_a_llama_counts_as_its_config_does() -> None:
    assert model_from_architecture(LLAMA).parameters == 8_030_261_248


def test_every_fault_comes_at_once() -> None:
    broken = {
        **{key: value for key, value in LLAMA.items() if key != "layers"},
        "hidden_sise": 1,
        "heads": 0,
        "gated_mlp": 1,
        "norm": "batchnorm",
        "moe": {**MIXTURE, "top_k": 9, "router": True},
        "mla": {**LATENT, "v_head_dim": None},
        "encoder": {"layers": -1, "family": "t5"},
    }
    assert sorted(faults_of(broken)) == [
        ("/encoder/family", "unknown_member"),
        ("/encoder/layers", "out_of_range"),
        ("/gated_mlp", "not_a_boolean"),
        ("/heads", "out_of_range"),
        ("/hidden_sise", "unknown_member"),
        ("/layers", "required"),
        ("/mla/v_head_dim", "null"),
        ("/moe/router", "unknown_member"),
        ("/moe/top_k", "out_of_range"),
        ("/norm", "unknown_value"),
    ]


def test_an_unknown_member_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'hidden_size'"):
        read_architecture({**LLAMA, "hiden_size": 4096})


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"kv_heads": 5}, "/kv_heads", "not_a_divisor"),
        ({"heads": 33, "kv_heads": 33}, "/heads", "not_a_divisor"),
        ({"mla": LATENT, "kv_heads": 32, "head_dim": 64}, "/head_dim", "contradiction"),
        ({"layer_types": ["sliding"] * 32}, "/layer_types", "contradiction"),
        ({"head": "classification"}, "/extra", "required"),
        ({"family": "qwen3_next"}, "/family", "needs_config"),
        ({"family": 3}, "/family", "not_a_string"),
        ({"moe": [1]}, "/moe", "not_an_object"),
    ],
)
def test_a_fault_is_named(changes: dict[str, Any], pointer: str, code: str) -> None:
    assert faults_of({**LLAMA, **changes}) == [(pointer, code)]


def test_a_family_brings_its_habits_and_they_are_said_aloud() -> None:
    fields = {
        "family": "gpt2",
        "layers": 12,
        "hidden_size": 768,
        "heads": 12,
        "vocab_size": 50257,
        "max_positions": 1024,
    }
    reading = read_architecture(fields)
    assert model_from_architecture(fields).parameters == 124_439_808
    assert reading.architecture.activation == "gelu_new"
    assert "learned_positions=True" in reading.warnings[0]
    assert faults_of({key: value for key, value in fields.items() if key != "max_positions"}) == [("", "required")]


def test_an_unknown_family_is_a_llama_block_with_a_warning() -> None:
    reading = read_architecture({**LLAMA, "family": "lama"})
    assert reading.architecture.family == "llama"
    assert "did you mean 'llama'" in reading.warnings[0]


def test_biases_follow_their_class_or_each_other() -> None:
    assert read_architecture({**LLAMA, "attention_bias": True}).architecture.attention_output_bias
    qwen = {**LLAMA, "family": "qwen2"}
    assert not read_architecture({**qwen, "attention_bias": True}).architecture.attention_output_bias
    gpt2 = {**LLAMA, "family": "gpt2", "kv_heads": 32, "max_positions": 1024}
    assert not read_architecture({**gpt2, "attention_bias": False}).architecture.attention_output_bias


def test_a_mixture_and_latent_attention_count_as_the_config_does() -> None:
    fields = {
        "family": "deepseek_v2",
        "layers": 4,
        "hidden_size": 256,
        "heads": 8,
        "ffn_size": 512,
        "vocab_size": 1000,
        "moe": {"experts": 6, "top_k": 2, "expert_ffn_size": 64, "shared_experts": 2, "first_dense_layers": 1},
        "mla": {"q_lora_rank": None, **LATENT},
    }
    config = {
        "model_type": "deepseek_v2",
        "num_hidden_layers": 4,
        "hidden_size": 256,
        "num_attention_heads": 8,
        "intermediate_size": 512,
        "vocab_size": 1000,
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "n_shared_experts": 2,
        "first_k_dense_replace": 1,
        "q_lora_rank": None,
        **LATENT,
    }
    assert model_from_architecture(fields).parameters == model_from_config(config).parameters


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(
    changes=st.dictionaries(
        st.sampled_from(FIELDS),
        st.integers(-2, 99)
        | json_values
        | st.dictionaries(st.sampled_from((*MIXTURE, *LATENT, "layers", "labels")), st.integers(-2, 99) | json_values),
        max_size=4,
    )
)
def test_damaged_fields_never_raise_anything_else(changes: dict[str, Any]) -> None:
    try:
        model = model_from_architecture({**LLAMA, **changes})
    except ConfigError as error:
        assert error.faults
    else:
        assert model.parameters > 0
