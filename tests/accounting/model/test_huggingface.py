"""Reading config.json: faults all at once, defaults said aloud, habits of each class, nothing but ConfigError."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.model import Architecture, ConfigError, known_types, model_from_config, read_config

CONFIGS = Path(__file__).parent / "data" / "configs"
SHIPPED = {path.stem: json.loads(path.read_text()) for path in sorted(CONFIGS.glob("*.json"))}
LLAMA = SHIPPED["real_llama-3.1-8b"]


def faults_of(config: Any) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as error:
        read_config(config)
    assert all(fault.detail for fault in error.value.faults)
    return [(fault.pointer, fault.code) for fault in error.value.faults]


def architecture(name: str, **changes: Any) -> Architecture:
    return read_config({**SHIPPED[name], **changes}).architecture


def test_every_fault_comes_at_once() -> None:
    broken = {
        **{key: value for key, value in LLAMA.items() if key != "vocab_size"},
        "num_hidden_layers": "32",
        "hidden_size": True,
        "intermediate_size": -1,
        "hidden_act": "sillu",
        "tie_word_embeddings": "no",
        "attention_dropout": 2,
        "architectures": "LlamaForCausalLM",
    }
    assert sorted(faults_of(broken)) == [
        ("/architectures", "wrong_list"),
        ("/attention_dropout", "out_of_range"),
        ("/hidden_act", "unknown_value"),
        ("/hidden_size", "not_an_integer"),
        ("/intermediate_size", "out_of_range"),
        ("/num_hidden_layers", "not_an_integer"),
        ("/tie_word_embeddings", "not_a_boolean"),
        ("/vocab_size", "required"),
    ]


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"num_key_value_heads": 5}, "/num_key_value_heads", "not_a_divisor"),
        ({"num_attention_heads": 24, "num_key_value_heads": 8}, "/num_attention_heads", "not_a_divisor"),
        ({"num_hidden_layers": 10**30}, "/num_hidden_layers", "out_of_range"),
        ({"vocab_size": None}, "/vocab_size", "null"),
        ({"hidden_size": 4096.0}, "/hidden_size", "not_an_integer"),
        ({"attention_dropout": float("nan")}, "/attention_dropout", "out_of_range"),
        ({"model_type": 7}, "/model_type", "not_a_string"),
        ({"text_config": "llama"}, "/text_config", "not_an_object"),
        ({"layer_types": ["full_attention"]}, "/layer_types", "wrong_length"),
        ({"layer_types": ["spiral"] * 32}, "/layer_types", "wrong_list"),
    ],
)
def test_a_fault_is_named(changes: dict[str, Any], pointer: str, code: str) -> None:
    assert faults_of({**LLAMA, **changes}) == [(pointer, code)]


def test_sizes_that_no_integer_could_hold_are_refused() -> None:
    giant = {
        "hidden_size": 2**20,
        "num_attention_heads": 2**10,
        "num_key_value_heads": 2**10,
        "num_hidden_layers": 9999,
    }
    assert faults_of({**LLAMA, **giant, "intermediate_size": 2**24, "head_dim": 2**16}) == [("", "too_large")]


@pytest.mark.parametrize("value", [None, 1, "llama", [], [LLAMA]])
def test_what_is_no_object_is_a_fault(value: Any) -> None:
    assert faults_of(value) == [("", "not_an_object")]


def test_a_nested_text_config_is_read_and_pointed_into() -> None:
    nested = {"model_type": "llava", "text_config": {**LLAMA, "hidden_size": 0}}
    assert faults_of(nested) == [("/text_config/hidden_size", "out_of_range")]
    reading = read_config({"model_type": "llava", "text_config": LLAMA})
    assert reading.architecture.family == "llama"
    assert any("text tower" in warning for warning in reading.warnings)


def test_class_defaults_are_said_aloud() -> None:
    """The published multimodal Gemma 3 files leave heads, their width and the vocabulary to the class."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    config = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text}
    model = model_from_config({**config, "text_config": {**text, "sliding_window": 1024}})
    assert model.parameters == 3_880_263_168
    assert "num_attention_heads=8, num_key_value_heads=4, head_dim=256, vocab_size=262208" in model.warnings[0]


def test_an_unknown_type_is_read_as_llama_only_where_every_size_is_there() -> None:
    reading = read_config({**LLAMA, "model_type": "internlm9"})
    assert reading.architecture.family == "llama"
    assert "unknown" in reading.warnings[0]
    lacking = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    with pytest.raises(ConfigError, match="did you mean 'llama'") as error:
        read_config({**lacking, "model_type": "lama"})
    assert error.value.faults[0].pointer == "/model_type"
    assert "gpt_neox" in error.value.faults[0].detail


def test_two_names_of_one_field_that_disagree_are_a_fault() -> None:
    assert faults_of({**SHIPPED["real_gpt2"], "num_hidden_layers": 13}) == [("/num_hidden_layers", "contradiction")]


def test_text_that_names_code_stays_text() -> None:
    config = {
        **LLAMA,
        "auto_map": {"AutoConfig": "os.system"},
        "_name_or_path": "; rm -rf",
        "architectures": ["os.system"],
    }
    reading = read_config(config)
    assert any("no code is run" in warning for warning in reading.warnings)


def test_experts_cannot_be_fewer_than_a_token_takes() -> None:
    config = {**SHIPPED["real_mixtral-8x7b"], "num_experts_per_tok": 9}
    assert faults_of(config) == [("/num_experts_per_tok", "out_of_range")]


HABITS: dict[str, dict[str, Any]] = {
    "real_gpt2": {"activation": "gelu_new", "norm": "layernorm", "dropout": 0.1, "attention_dropout": 0.1},
    "real_llama-3.1-8b": {"activation": "silu", "norm": "rmsnorm", "dropout": 0.0, "sliding_window": None},
    "real_mistral-7b-v0.1": {"sliding_window": 4096, "sliding_layers": None, "attention_bias": False},
    "real_qwen2-7b": {"attention_bias": True, "attention_output_bias": False, "sliding_window": None},
    "real_qwen3-8b": {"qk_norm": True, "attention_bias": False},
    "real_gemma2-9b": {
        "norms_per_layer": 4,
        "attention_softcap": True,
        "final_softcap": True,
        "sliding_layers": 21,
        "activation": "gelu_tanh",
    },
    "real_gemma3-1b": {"sliding_window": 512, "sliding_layers": 22, "qk_norm": True, "final_softcap": False},
    "real_gpt-oss-20b": {"attention_sinks": True, "sliding_window": 128, "sliding_layers": 12, "attention_bias": True},
    "real_gptj-6b": {"parallel_block": True, "norms_per_layer": 1, "head_bias": True},
    "built_pythia-1.4b": {"parallel_block": True, "norms_per_layer": 2, "activation": "gelu"},
    "built_mpt-7b": {"norm_bias": False, "gated_mlp": False, "activation": "gelu"},
    "built_bert-base-uncased": {"causal": False, "embedding_norm": True, "final_norm": False, "dropout": 0.1},
    "built_t5-base": {"causal": True, "gated_mlp": False, "activation": "relu", "cross_attention": True},
    "built_glm-4-9b": {"attention_bias": True, "attention_output_bias": False},
    "real_deepseek-v3": {"head_dim": 192, "kv_heads": 128},
    "real_qwen3.5-27b": {"attention_gate": True, "qk_norm": True},
}


@pytest.mark.parametrize("name", HABITS)
def test_a_class_has_its_habits(name: str) -> None:
    found = architecture(name)
    assert {field: getattr(found, field) for field in HABITS[name]} == HABITS[name]


def test_patterns_of_blocks() -> None:
    deepseek = model_from_config(SHIPPED["real_deepseek-v3"]).inventory
    assert deepseek is not None
    assert deepseek.pattern == (0,) * 3 + (1,) * 58
    assert [kind.mixture for kind in deepseek.kinds] == [False, True]
    t5 = model_from_config(SHIPPED["built_t5-base"]).inventory
    assert t5 is not None
    assert [(kind.name, kind.encoder) for kind in t5.kinds] == [
        ("encoder-first-dense", True),
        ("encoder-dense", True),
        ("first-dense", False),
        ("dense", False),
    ]
    assert t5.pattern == (0,) + (1,) * 11 + (2,) + (3,) * 11
    qwen = model_from_config(SHIPPED["real_qwen3.5-27b"]).inventory
    assert qwen is not None
    assert [kind.attention for kind in qwen.kinds] == ["linear", "full"]
    assert qwen.pattern == (0, 0, 0, 1) * 16


def test_qwen_uses_its_window_only_where_told_and_from_a_block_on() -> None:
    on = architecture("real_qwen2-7b", use_sliding_window=True, max_window_layers=20, sliding_window=4096)
    assert on.sliding_layers == 8
    assert on.layer_type(19) == "full"
    assert on.layer_type(20) == "sliding"


def test_task_heads() -> None:
    bert = SHIPPED["built_bert-base-uncased"]
    backbone = model_from_config(bert).parameters
    classifier = model_from_config({**bert, "architectures": ["BertForSequenceClassification"], "num_labels": 3})
    assert classifier.parameters == backbone + 3 * 768 + 3
    masked = model_from_config({**bert, "architectures": ["BertForMaskedLM"]})
    assert masked.parameters == 109_514_298
    reward = model_from_config({**LLAMA, "architectures": ["LlamaForSequenceClassification"], "num_labels": 1})
    assert reward.parameters == 8_030_261_248 - 128256 * 4096 + 4096
    assert model_from_config({**LLAMA, "architectures": ["LlamaModel"]}).parameters == 7_504_924_672


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=6,
)
small = st.integers(-2, 64)


@settings(max_examples=150, deadline=None)
@given(config=json_values)
def test_arbitrary_json_never_raises_anything_else(config: Any) -> None:
    try:
        read_config(config)
    except ConfigError as error:
        assert error.faults


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(SHIPPED)), family=st.sampled_from(known_types()), data=st.data())
def test_a_damaged_config_never_raises_anything_else(name: str, family: str, data: st.DataObject) -> None:
    config = dict(SHIPPED[name])
    if isinstance(config.get("text_config"), dict) and data.draw(st.booleans()):
        config = dict(config["text_config"])
    if data.draw(st.booleans()):
        config["model_type"] = family
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=3)):
        config[key] = data.draw(small | json_values)
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=2)):
        config.pop(key, None)
    try:
        model = model_from_config(config)
    except ConfigError as error:
        assert error.faults
    else:
        assert 0 < model.parameters <= 2**56
