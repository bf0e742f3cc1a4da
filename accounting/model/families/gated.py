"""Decoders with a gated MLP: Llama and its relatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from accounting.model import steps
from accounting.model.families.habits import GLU_BIASES
from accounting.model.family import Family

LLAMA: Final = Family(keys=GLU_BIASES, defaults={"mlp_bias": False})
QWEN3: Final = Family(
    defaults={"head_dim": 128, "kv_heads": 32},
    traits={"qk_norm": True},
    window_switch="use_sliding_window",
)
_GEMMA_DEFAULTS: Final[Mapping[str, Any]] = {
    "head_dim": 256,
    "tied_embeddings": True,
    "activation": "gelu_pytorch_tanh",
}
_GEMMA_KEYS: Final[Mapping[str, tuple[str, ...]]] = {"activation": ("hidden_activation", "hidden_act")}

OLMO2: Final = Family(traits={"qk_norm": True, "qk_norm_width": "full", "sliding_window": None})
GATED: Final[Mapping[str, Family]] = {
    "llama": LLAMA,
    "granite": LLAMA,
    "smollm3": Family(keys=GLU_BIASES, defaults={"mlp_bias": False, "tied_embeddings": True, "kv_heads": 4}),
    "mistral": Family(
        defaults={"kv_heads": 8, "sliding_window": 4096},
        traits={"attention_bias": False, "attention_output_bias": False},
    ),
    "qwen2": Family(
        defaults={"kv_heads": 32},
        traits={"attention_bias": True, "attention_output_bias": False},
        window_switch="use_sliding_window",
    ),
    "qwen3": QWEN3,
    "gemma": Family(keys=_GEMMA_KEYS, defaults={**_GEMMA_DEFAULTS, "kv_heads": 16}, traits={"sliding_window": None}),
    "gemma2": Family(
        keys=_GEMMA_KEYS,
        defaults={**_GEMMA_DEFAULTS, "kv_heads": 4, "sliding_window": 4096},
        traits={"norms_per_layer": 4, "softcap_defaults": (50.0, 30.0)},
        window_period=2,
        steps=(steps.softcaps,),
    ),
    "gemma3_text": Family(
        keys=_GEMMA_KEYS,
        # Published Gemma 3 files of the multimodal sizes leave these widths to the class.
        defaults={**_GEMMA_DEFAULTS, "heads": 8, "kv_heads": 4, "vocab_size": 262_208, "sliding_window": 4096},
        traits={"norms_per_layer": 4, "qk_norm": True, "softcap_defaults": (None, None)},
        window_period=6,
        steps=(steps.softcaps,),
    ),
    "phi3": Family(
        keys={"dropout": ("resid_pdrop",)},
        defaults={"dropout": 0.0},
        traits={"attention_bias": False, "attention_output_bias": False},
    ),
    "glm": Family(
        defaults={"head_dim": 128, "kv_heads": 2, "attention_bias": True},
        traits={"attention_output_bias": False, "sliding_window": None},
    ),
    "glm4": Family(
        defaults={"head_dim": 128, "kv_heads": 2, "attention_bias": True},
        traits={"attention_output_bias": False, "norms_per_layer": 4, "sliding_window": None},
    ),
    "cohere": Family(
        keys={"qk_norm": ("use_qk_norm",)},
        defaults={"tied_embeddings": True, "qk_norm": False},
        traits={
            "norm": "layernorm",
            "norm_bias": False,
            "norms_per_layer": 1,
            "parallel_block": True,
            "qk_norm_width": "heads",
            "sliding_window": None,
        },
    ),
    "cohere2": Family(
        defaults={"tied_embeddings": True, "sliding_window": 4096},
        traits={"norm": "layernorm", "norm_bias": False, "norms_per_layer": 1, "parallel_block": True},
        window_period=4,
    ),
    "olmo": Family(traits={"norm": "layernorm", "norm_weight": False, "norm_bias": False, "sliding_window": None}),
    "olmo2": OLMO2,
    "stablelm": Family(
        keys={
            "attention_bias": ("use_qkv_bias",),
            "qk_norm": ("qk_layernorm",),
            "dropout": ("hidden_dropout",),
        },
        defaults={"qk_norm": False, "dropout": 0.0},
        traits={
            "norm": "layernorm",
            "attention_output_bias": False,
            "sliding_window": None,
            "qk_norm_width": "per_head",
        },
        steps=(steps.stablelm,),
    ),
}
