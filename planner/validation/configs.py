"""The config.json that a real library is given: written by us or picked member by member, never a client's own text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accounting.model import Architecture, ConfigError, Inventory, Model, known_types, model_from_config

CODE_OR_NAMES = frozenset(
    {
        "auto_map",
        "custom_pipelines",
        "_name_or_path",
        "name_or_path",
        "_commit_hash",
        "attn_implementation",
        "_attn_implementation",
        "quantization_config",
        "torch_dtype",
        "dtype",
        "torchscript",
        "use_cache",
        "transformers_version",
        "return_dict",
        "output_attentions",
        "output_hidden_states",
    }
)
"""Members that name code, places or ways to run: left out, whatever they say."""

Fields = Mapping[str, str]
LLAMA_FIELDS: Fields = {
    "num_hidden_layers": "layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "intermediate_size": "ffn_size",
    "vocab_size": "vocab_size",
    "max_position_embeddings": "max_positions",
    "tie_word_embeddings": "tied_embeddings",
    "hidden_act": "activation",
}
FAMILIES: Mapping[str, tuple[str, Fields]] = {
    "llama": (
        "LlamaForCausalLM",
        {**LLAMA_FIELDS, "attention_bias": "attention_bias", "mlp_bias": "mlp_bias"},
    ),
    "mistral": ("MistralForCausalLM", {**LLAMA_FIELDS, "sliding_window": "sliding_window"}),
    "qwen2": ("Qwen2ForCausalLM", LLAMA_FIELDS),
    "qwen3": ("Qwen3ForCausalLM", LLAMA_FIELDS),
    "gemma2": ("Gemma2ForCausalLM", {**LLAMA_FIELDS, "sliding_window": "sliding_window"}),
    "gpt2": (
        "GPT2LMHeadModel",
        {
            "n_layer": "layers",
            "n_embd": "hidden_size",
            "n_head": "heads",
            "n_inner": "ffn_size",
            "vocab_size": "vocab_size",
            "n_positions": "max_positions",
            "activation_function": "activation",
            "tie_word_embeddings": "tied_embeddings",
        },
    ),
    "gpt_neox": (
        "GPTNeoXForCausalLM",
        {
            **{name: field for name, field in LLAMA_FIELDS.items() if name not in {"head_dim", "num_key_value_heads"}},
            "use_parallel_residual": "parallel_block",
        },
    ),
    "opt": (
        "OPTForCausalLM",
        {
            "num_hidden_layers": "layers",
            "hidden_size": "hidden_size",
            "num_attention_heads": "heads",
            "ffn_dim": "ffn_size",
            "vocab_size": "vocab_size",
            "max_position_embeddings": "max_positions",
            "tie_word_embeddings": "tied_embeddings",
        },
    ),
}
"""Families whose config.json can be written from our own fields: class, and which of our fields each member is."""
TORCH_NAMES = {"gelu_tanh": "gelu_pytorch_tanh"}


class NoConfig(Exception):
    """There is no config.json to build the real model from; the text says what to send instead."""


def config_of(model: Model, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The config.json of a model: what was `given` without the members that name code, else written from its fields.

    What comes back reads as exactly the same tensors. Raises NoConfig.
    """
    if given is not None:
        found = {name: value for name, value in given.items() if name not in CODE_OR_NAMES}
        if found.get("model_type") not in known_types():
            raise NoConfig("its model_type is none of the classes that are built here")
    elif model.architecture is not None and model.architecture.family in FAMILIES:
        found = _written(model.architecture)
    else:
        raise NoConfig('give the model as {"config": …}: this one has no config.json that could be built')
    if _tensors(found) != model.inventory:
        raise NoConfig(
            'the config.json written from these fields has other tensors than the model; give it as {"config": …}'
        )
    return found


def _written(architecture: Architecture) -> dict[str, Any]:
    kind, fields = FAMILIES[architecture.family]
    found: dict[str, Any] = {"model_type": architecture.family, "architectures": [kind]}
    for name, field in fields.items():
        value = getattr(architecture, field)
        if value is not None:
            found[name] = TORCH_NAMES.get(value, value) if isinstance(value, str) else value
    return found


def _tensors(config: Mapping[str, Any]) -> Inventory | None:
    try:
        return model_from_config(config).inventory
    except ConfigError:
        return None
