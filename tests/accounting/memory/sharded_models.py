"""Wide models of a few blocks under FSDP2, and the peak accounting gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.ledger import fill
from accounting.memory import MEMORY_LINES
from accounting.memory.context import Context
from accounting.model import model_from_config
from accounting.options import Options
from accounting.scenario import Recompute
from accounting.vocabulary import Bucket, RecomputeMode
from tests.accounting.memory.saved_models import ATTENTIONS
from tests.accounting.step_time.scenes import scene

Case = Mapping[str, Any]
_LLAMA: Mapping[str, Any] = {
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 5632,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
_NEOX: Mapping[str, Any] = {
    "model_type": "gpt_neox",
    "architectures": ["GPTNeoXForCausalLM"],
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "intermediate_size": 8192,
    "vocab_size": 50432,
    "max_position_embeddings": 8192,
    "rotary_pct": 0.25,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
_GPT2: Mapping[str, Any] = {"n_embd": 1600, "n_head": 25, "n_positions": 8192, "vocab_size": 50257}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **_LLAMA},
    "llama-few-words": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **_LLAMA, "vocab_size": 2048},
    "gpt-neox-few-words": {**_NEOX, "vocab_size": 2048},
    "qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], **_LLAMA, "vocab_size": 151936},
    "mixtral": {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        **_LLAMA,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
    "gpt-neox": _NEOX,
    "deepseek-v3": {
        "model_type": "deepseek_v3",
        "architectures": ["DeepseekV3ForCausalLM"],
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "q_lora_rank": 768,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "intermediate_size": 5632,
        "moe_intermediate_size": 1024,
        "n_routed_experts": 16,
        "n_shared_experts": 1,
        "num_experts_per_tok": 4,
        "n_group": 8,
        "topk_group": 4,
        "first_k_dense_replace": 1,
        "vocab_size": 32000,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
    },
    "gpt2": {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        **_GPT2,
        **dict.fromkeys(("attn_pdrop", "resid_pdrop", "embd_pdrop"), 0.0),
    },
}


def config_of(case: Case) -> dict[str, Any]:
    """config.json of a case's model."""
    config = dict(MODELS[case["model"]])
    return {**config, "n_layer" if config["model_type"] == "gpt2" else "num_hidden_layers": case["layers"]}


def predicted(case: Case) -> int:
    """Peak bytes of the tensors of a rank: the ledger without the framework's own buffers."""
    recipe: dict[str, Any] = {
        "precision": PRESETS["bf16-mixed"],
        "optimizer": find_optimizer("adamw"),
        "optimizer_options": {"fused": True},
        "attention": ATTENTIONS[case["attention"]],
        "recompute": Recompute(mode=RecomputeMode(case["recompute"])),
        "options": Options(reshard_after_forward=case["reshard"]),
    }
    scenario = scene(
        model_from_config(config_of(case)),
        recipe=recipe,
        dp_shard=case["ranks"],
        sequence_length=case["sequence"],
        micro_batch_size=case["micro_batch"],
    )
    lines = tuple(line for line in MEMORY_LINES if line.bucket is not Bucket.FRAMEWORK)
    return int(fill(lines, Context(scenario)).peak()[0, 0])
