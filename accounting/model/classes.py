"""How each family's class names its modules and which matrices it fuses; Llama's names where a row says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LLAMA_NAMES: Final[Mapping[str, str]] = {
    "embed_tokens": "model.embed_tokens",
    "positions": "model.embed_positions",
    "embedding_norm": "model.embed_layernorm",
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "o_proj": "self_attn.o_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "gate_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "down_proj": "mlp.down_proj",
    "router": "mlp.gate",
    "experts": "mlp.experts",
    "shared": "mlp.shared_experts",
    "norm": "model.norm",
    "lm_head": "lm_head",
}

_NORMS: Final = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassNames:
    """One family's module names: `names` by logical word, `norms` in the block's order."""

    names: Mapping[str, str] = field(default_factory=dict)
    norms: tuple[str, ...] = _NORMS
    fused_qkv: str | None = None
    fused_gate_up: str | None = None
    convolution_weights: bool = False
    """GPT-2's Conv1D holds its matrices as [in, out]."""

    def name(self, word: str) -> str:
        """The class's module path of a logical word."""
        return self.names.get(word, LLAMA_NAMES[word])


def _gpt2_names(*, attention: str = "attn", mlp: str = "mlp") -> dict[str, str]:
    return {
        "embed_tokens": "transformer.wte",
        "positions": "transformer.wpe",
        "q_proj": f"{attention}.q_proj",
        "k_proj": f"{attention}.k_proj",
        "v_proj": f"{attention}.v_proj",
        "o_proj": f"{attention}.c_proj",
        "up_proj": f"{mlp}.c_fc",
        "down_proj": f"{mlp}.c_proj",
        "norm": "transformer.ln_f",
    }


_BERT_NAMES: Final[Mapping[str, str]] = {
    "embed_tokens": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    "q_proj": "attention.self.query",
    "k_proj": "attention.self.key",
    "v_proj": "attention.self.value",
    "o_proj": "attention.output.dense",
    "up_proj": "intermediate.dense",
    "down_proj": "output.dense",
    "norm": "layernorm",
}
_CLIP_NAMES: Final[Mapping[str, str]] = {
    "embed_tokens": "text_model.embeddings.token_embedding",
    "positions": "embeddings.position_embedding",
    "embedding_norm": "vision_model.pre_layrnorm",
    "o_proj": "self_attn.out_proj",
    "up_proj": "mlp.fc1",
    "down_proj": "mlp.fc2",
    "norm": "post_layernorm",
}
_BERT: Final = ClassNames(names=_BERT_NAMES, norms=("attention.output.LayerNorm", "output.LayerNorm"))
_CLIP: Final = ClassNames(names=_CLIP_NAMES, norms=("layer_norm1", "layer_norm2"))

CLASSES: Final[Mapping[str, ClassNames]] = {
    "gpt2": ClassNames(names=_gpt2_names(), norms=("ln_1", "ln_2"), fused_qkv="attn.c_attn", convolution_weights=True),
    "gpt_bigcode": ClassNames(names=_gpt2_names(), norms=("ln_1", "ln_2"), fused_qkv="attn.c_attn"),
    "gpt_neo": ClassNames(
        names={**_gpt2_names(attention="attn.attention"), "o_proj": "attn.attention.out_proj"}, norms=("ln_1", "ln_2")
    ),
    "gptj": ClassNames(
        names={**_gpt2_names(), "o_proj": "attn.out_proj", "up_proj": "mlp.fc_in", "down_proj": "mlp.fc_out"},
        norms=("ln_1",),
    ),
    "gpt_neox": ClassNames(
        names={
            "embed_tokens": "gpt_neox.embed_in",
            "o_proj": "attention.dense",
            "up_proj": "mlp.dense_h_to_4h",
            "down_proj": "mlp.dense_4h_to_h",
            "norm": "gpt_neox.final_layer_norm",
            "lm_head": "embed_out",
        },
        fused_qkv="attention.query_key_value",
    ),
    "bloom": ClassNames(
        names={
            "embed_tokens": "transformer.word_embeddings",
            "embedding_norm": "transformer.word_embeddings_layernorm",
            "o_proj": "self_attention.dense",
            "up_proj": "mlp.dense_h_to_4h",
            "down_proj": "mlp.dense_4h_to_h",
            "norm": "transformer.ln_f",
        },
        fused_qkv="self_attention.query_key_value",
    ),
    "falcon": ClassNames(
        names={
            "embed_tokens": "transformer.word_embeddings",
            "o_proj": "self_attention.dense",
            "up_proj": "mlp.dense_h_to_4h",
            "down_proj": "mlp.dense_4h_to_h",
            "norm": "transformer.ln_f",
        },
        fused_qkv="self_attention.query_key_value",
    ),
    "mpt": ClassNames(
        names={
            "embed_tokens": "transformer.wte",
            "o_proj": "attn.out_proj",
            "up_proj": "ffn.up_proj",
            "down_proj": "ffn.down_proj",
            "norm": "transformer.norm_f",
        },
        norms=("norm_1", "norm_2"),
        fused_qkv="attn.Wqkv",
    ),
    "opt": ClassNames(
        names={
            "embed_tokens": "model.decoder.embed_tokens",
            "positions": "model.decoder.embed_positions",
            "o_proj": "self_attn.out_proj",
            "up_proj": "fc1",
            "down_proj": "fc2",
            "norm": "model.decoder.final_layer_norm",
        },
        norms=("self_attn_layer_norm", "final_layer_norm"),
    ),
    "phi": ClassNames(
        names={
            "o_proj": "self_attn.dense",
            "q_norm": "self_attn.q_layernorm",
            "k_norm": "self_attn.k_layernorm",
            "up_proj": "mlp.fc1",
            "down_proj": "mlp.fc2",
            "norm": "model.final_layernorm",
        }
    ),
    "phi3": ClassNames(fused_qkv="self_attn.qkv_proj", fused_gate_up="mlp.gate_up_proj"),
    "glm": ClassNames(fused_gate_up="mlp.gate_up_proj"),
    "glm4": ClassNames(fused_gate_up="mlp.gate_up_proj"),
    "starcoder2": ClassNames(names={"up_proj": "mlp.c_fc", "down_proj": "mlp.c_proj"}),
    "olmo2": ClassNames(norms=("post_attention_layernorm", "post_feedforward_layernorm")),
    "mixtral": ClassNames(names={"router": "mlp.gate"}),
    "gpt_oss": ClassNames(names={"router": "mlp.router"}),
    "qwen2_moe": ClassNames(names={"shared": "mlp.shared_expert"}),
    "qwen3_next": ClassNames(names={"shared": "mlp.shared_expert"}),
    "qwen3_5_moe": ClassNames(names={"shared": "mlp.shared_expert"}),
    "llama4_text": ClassNames(
        names={
            "gate_proj": "feed_forward.gate_proj",
            "up_proj": "feed_forward.up_proj",
            "down_proj": "feed_forward.down_proj",
            "router": "feed_forward.router",
            "experts": "feed_forward.experts",
            "shared": "feed_forward.shared_expert",
        }
    ),
    "t5": ClassNames(
        names={
            "embed_tokens": "shared",
            "q_proj": "SelfAttention.q",
            "k_proj": "SelfAttention.k",
            "v_proj": "SelfAttention.v",
            "o_proj": "SelfAttention.o",
            "gate_proj": "DenseReluDense.wi_0",
            "up_proj": "DenseReluDense.wi",
            "down_proj": "DenseReluDense.wo",
            "norm": "final_layer_norm",
        },
        norms=("layer.0.layer_norm", "layer.1.layer_norm", "layer.2.layer_norm"),
    ),
    "bert": _BERT,
    "roberta": _BERT,
    "vit": ClassNames(names=_BERT_NAMES, norms=("layernorm_before", "layernorm_after")),
    "clip": _CLIP,
    "clip_text_model": _CLIP,
}


def class_names(family: str) -> ClassNames:
    """The names of a family's class, Llama's where the family has no row."""
    return CLASSES.get(family, ClassNames())
