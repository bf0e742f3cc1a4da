"""A config.json of the same family, small enough to train on a CPU: the shapes shrink, the laws do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BLOCKS = 2
HEADS = 3
HEAD_DIM = 32
HIDDEN = HEADS * HEAD_DIM
FFN = 260
VOCAB = 1003
"""260 and 1003 divide by few world sizes, so that uneven cuts are measured too; 96 lets blocks of 256 come out even."""
POSITIONS = 128

SIZES: Mapping[str, int] = {
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), BLOCKS),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model"), HIDDEN),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads"), HEADS),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim"), FFN),
    "vocab_size": VOCAB,
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), POSITIONS),
    "head_dim": HEAD_DIM,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "max_window_layers": BLOCKS,
    "q_lora_rank": 48,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 8,
    "v_head_dim": HEAD_DIM,
}
"""Members of a config.json and what they become."""
AT_MOST: Mapping[str, int] = {
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk"), 2),
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "sliding_window": 64,
}
QUERY_HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads")
PER_LAYER = ("layer_types", "mlp_layer_types")
DROPPED = ("rope_scaling", "num_nextn_predict_layers", "pad_token_id", "bos_token_id", "eos_token_id")


def reduced(config: Mapping[str, Any]) -> dict[str, Any]:
    """The small config; members it does not know stay as they are."""
    heads = next(
        (config[name] for name in ("num_attention_heads", "n_head") if isinstance(config.get(name), int)), None
    )
    found: dict[str, Any] = {}
    for name, value in config.items():
        if name in DROPPED:
            continue
        if name in SIZES and isinstance(value, int) and not isinstance(value, bool):
            found[name] = SIZES[name]
        elif name in AT_MOST and isinstance(value, int):
            found[name] = min(value, AT_MOST[name])
        elif name in KV_HEADS and isinstance(value, int):
            found[name] = HEADS if value == heads else 1
        elif name in PER_LAYER and isinstance(value, list):
            found[name] = value[:BLOCKS]
        else:
            found[name] = value
    return found
