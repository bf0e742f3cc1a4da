"""Mixtures of experts, latent attention and linear attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from accounting.model import steps
from accounting.model.families.gated import OLMO2, QWEN3
from accounting.model.family import Family, MixtureKeys, Source
from accounting.model.reader import MISSING

_QWEN_MIXTURE: Final = MixtureKeys(
    experts=Source(keys=("num_experts", "num_local_experts")),
    top_k=Source(keys=("num_experts_per_tok",)),
    expert_ffn_size=Source(keys=("moe_intermediate_size",)),
    layer_step=Source(keys=("decoder_sparse_step",), default=1),
    dense_list="mlp_only_layers",
)
_DEEPSEEK_MIXTURE: Final = MixtureKeys(
    experts=Source(keys=("n_routed_experts", "num_local_experts", "num_experts")),
    top_k=Source(keys=("num_experts_per_tok",)),
    expert_ffn_size=Source(keys=("moe_intermediate_size",)),
    shared_experts=Source(keys=("n_shared_experts",), default=1),
    first_dense_layers=Source(keys=("first_k_dense_replace",)),
)
_DEEPSEEK: Final = Family(
    traits={"sliding_window": None, "head_dim": None, "kv_heads": None},
    mixture=_DEEPSEEK_MIXTURE,
    latent_attention=True,
)
_NEXT_MIXTURE: Final = replace(
    _QWEN_MIXTURE,
    shared_ffn_size=Source(keys=("shared_expert_intermediate_size",)),
    fixed_shared_experts=1,
    shared_gate=True,
)
_QWEN3_NEXT: Final = Family(
    defaults={"head_dim": 256, "kv_heads": MISSING},
    traits={"qk_norm": True, "attention_gate": True, "sliding_window": None},
    mixture=_NEXT_MIXTURE,
    steps=(steps.linear_attention,),
)
_QWEN35_TRAITS: Final[Mapping[str, Any]] = {**_QWEN3_NEXT.traits, "fused_projections": False}

MIXTURES: Final[Mapping[str, Family]] = {
    "mixtral": Family(
        defaults={"kv_heads": 8},
        traits={"attention_bias": False, "attention_output_bias": False},
        mixture=MixtureKeys(
            experts=Source(keys=("num_local_experts", "num_experts")),
            top_k=Source(keys=("num_experts_per_tok",)),
            expert_ffn_size=Source(keys=("intermediate_size",)),
        ),
    ),
    "qwen2_moe": Family(
        keys={"attention_bias": ("qkv_bias",)},
        defaults={"kv_heads": 16, "attention_bias": True},
        traits={"attention_output_bias": False},
        window_switch="use_sliding_window",
        mixture=_NEXT_MIXTURE,
    ),
    "qwen3_moe": replace(QWEN3, defaults={"kv_heads": 4}, mixture=_QWEN_MIXTURE),
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5": replace(_QWEN3_NEXT, traits=_QWEN35_TRAITS, mixture=None),
    "qwen3_5_moe": replace(_QWEN3_NEXT, traits=_QWEN35_TRAITS),
    "olmoe": replace(
        OLMO2,
        mixture=MixtureKeys(
            experts=Source(keys=("num_experts",)),
            top_k=Source(keys=("num_experts_per_tok",)),
            expert_ffn_size=Source(keys=("intermediate_size",)),
        ),
    ),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "gpt_oss": Family(
        defaults={"head_dim": 64, "kv_heads": 8, "attention_bias": True, "sliding_window": 128},
        traits={"attention_sinks": True},
        window_period=2,
        mixture=MixtureKeys(
            experts=Source(keys=("num_local_experts",)),
            top_k=Source(keys=("num_experts_per_tok", "experts_per_token")),
            expert_ffn_size=Source(keys=("intermediate_size",)),
            router_bias=True,
            expert_bias=True,
        ),
    ),
    "glm4_moe": Family(
        keys={"qk_norm": ("use_qk_norm",)},
        defaults={"kv_heads": 8, "qk_norm": False},
        traits={"attention_output_bias": False, "sliding_window": None},
        mixture=_DEEPSEEK_MIXTURE,
    ),
    "llama4_text": Family(
        keys={
            "sliding_window": ("attention_chunk_size",),
            "qk_norm": ("use_qk_norm",),
            "ffn_size": ("intermediate_size",),
        },
        defaults={"head_dim": 128, "kv_heads": 8, "qk_norm": True, "sliding_window": 8192},
        # An L2 norm without weights.
        traits={"qk_norm_width": "none"},
        window_period=4,
        mixture=MixtureKeys(
            experts=Source(keys=("num_local_experts",)),
            top_k=Source(keys=("num_experts_per_tok",), default=1),
            expert_ffn_size=Source(keys=("intermediate_size",)),
            shared_ffn_size=Source(keys=("intermediate_size",)),
            fixed_shared_experts=1,
            layer_step=Source(keys=("interleave_moe_layer_step",), default=1),
        ),
        steps=(steps.llama4,),
    ),
}
