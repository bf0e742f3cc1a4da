"""What a family row says: how a transformers config class names, defaults and fixes the fields of an Architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from accounting.model.reader import Reader

Draft = dict[str, Any]
"""Keyword arguments of an Architecture in the making."""

Step = Callable[[Reader, Draft], None]
"""Reads what only one family has, after the common fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a count stands in a config and what its class takes where it does not (None: it must be stated)."""

    keys: tuple[str, ...]
    default: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureKeys:
    """How a family names its mixture of experts."""

    experts: Source
    top_k: Source
    expert_ffn_size: Source
    shared_experts: Source | None = None
    shared_ffn_size: Source | None = None
    """Stated outright; without it the shared experts are `shared_experts` times an expert wide."""
    fixed_shared_experts: int = 0
    first_dense_layers: Source | None = None
    layer_step: Source | None = None
    dense_list: str | None = None
    router_bias: bool = False
    expert_bias: bool = False
    shared_gate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One model type of transformers.

    `traits` are fields the class fixes whatever a config says; `defaults` what its config class takes for a missing
    key; `keys` the names it gives a field where they differ from Llama's.
    """

    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    traits: Mapping[str, Any] = field(default_factory=dict)
    ffn_multiple: int | None = None
    """Width of the MLP in hidden sizes where the config states none."""
    window_period: int = 1
    """Every n-th block attends to everything, the others through the sliding window; 1: all through the window."""
    window_switch: str | None = None
    """A key that must be true for the window to be used at all (Qwen's `use_sliding_window`)."""
    mixture: MixtureKeys | None = None
    latent_attention: bool = False
    inner: str = "text_config"
    """The nested object that describes the tower counted here."""
    steps: tuple[Step, ...] = ()


COMMON_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "layers": ("num_hidden_layers",),
    "hidden_size": ("hidden_size",),
    "heads": ("num_attention_heads",),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "ffn_size": ("intermediate_size",),
    "vocab_size": ("vocab_size",),
    "max_positions": ("max_position_embeddings",),
    "activation": ("hidden_act",),
    "tied_embeddings": ("tie_word_embeddings",),
    "attention_bias": ("attention_bias",),
    "mlp_bias": ("mlp_bias",),
    "sliding_window": ("sliding_window",),
    "attention_dropout": ("attention_dropout",),
    "dropout": ("hidden_dropout",),
    "qk_norm": ("qk_norm",),
}

COMMON_DEFAULTS: Final[Mapping[str, Any]] = {
    "kv_heads": None,
    "head_dim": None,
    "max_positions": None,
    "activation": "silu",
    "tied_embeddings": False,
    "attention_bias": False,
    "sliding_window": None,
    "attention_dropout": 0.0,
}

COMMON_TRAITS: Final[Mapping[str, Any]] = {"qk_norm": False, "mlp_bias": False, "dropout": 0.0}
"""What most classes fix; a family that reads one of them names its key in `keys`."""

ACTIVATIONS: Final[Mapping[str, str]] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_new",
    "gelu_fast": "gelu_fast",
    "gelu_python": "gelu_python",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu2",
    "relu6": "relu6",
    "mish": "mish",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
}
"""transformers' word -> ours; `gelu_new` is the formula written out in Python, `gelu_tanh` its fused kernel."""
