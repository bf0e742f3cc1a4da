"""Small models of many families, as config.json would describe them, and what accounting says they save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.memory.context import Context
from accounting.model import Adapter, Model, model_from_config
from accounting.scenario import Recompute
from accounting.vocabulary import Attention, Engine, RecomputeMode
from tests.accounting.step_time.scenes import scene

Case = Mapping[str, Any]
SHALLOW, DEEP = 2, 4
"""Numbers of blocks whose difference is two blocks and nothing else."""

_ROPE: Mapping[str, Any] = {
    "hidden_size": 192,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 320,
    "vocab_size": 503,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "attention_dropout": 0.0,
}
_GEMMA: Mapping[str, Any] = {**_ROPE, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True}
_GPT2: Mapping[str, Any] = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": 192,
    "n_head": 6,
    "n_inner": 704,
    "n_positions": 1024,
    "vocab_size": 503,
    "attn_pdrop": 0.0,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
}
_LATENT: Mapping[str, Any] = {
    "hidden_size": 192,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "q_lora_rank": 80,
    "kv_lora_rank": 96,
    "qk_nope_head_dim": 40,
    "qk_rope_head_dim": 24,
    "v_head_dim": 48,
    "intermediate_size": 320,
    "moe_intermediate_size": 136,
    "n_routed_experts": 16,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "n_group": 8,
    "topk_group": 4,
    "vocab_size": 503,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}


def _named(
    kind: str, head: str, fields: Mapping[str, Any], layers: str = "num_hidden_layers", **more: Any
) -> dict[str, Any]:
    return {"model_type": kind, "architectures": [head], **fields, **more, "_layers": layers}


MODELS: Mapping[str, Mapping[str, Any]] = {
    "gpt2": {**_GPT2, "_layers": "n_layer"},
    "gpt2-fused-gelu": {**_GPT2, "activation_function": "gelu_pytorch_tanh", "_layers": "n_layer"},
    "llama": _named("llama", "LlamaForCausalLM", _ROPE),
    "llama-mha": _named("llama", "LlamaForCausalLM", {**_ROPE, "num_key_value_heads": 6, "head_dim": 32}),
    "llama-mqa": _named("llama", "LlamaForCausalLM", {**_ROPE, "num_key_value_heads": 1}),
    "mistral": _named("mistral", "MistralForCausalLM", _ROPE, sliding_window=None),
    "mistral-window": _named("mistral", "MistralForCausalLM", _ROPE, sliding_window=64),
    "qwen2": _named("qwen2", "Qwen2ForCausalLM", _ROPE, use_sliding_window=False),
    "qwen3": _named("qwen3", "Qwen3ForCausalLM", _ROPE, use_sliding_window=False),
    "gemma": _named("gemma", "GemmaForCausalLM", _GEMMA),
    "gemma2": _named("gemma2", "Gemma2ForCausalLM", _GEMMA, sliding_window=64, query_pre_attn_scalar=64),
    "gemma3": _named("gemma3_text", "Gemma3ForCausalLM", _GEMMA, sliding_window=64, _sliding_window_pattern=2),
    "mixtral": _named(
        "mixtral", "MixtralForCausalLM", _ROPE, num_local_experts=8, num_experts_per_tok=2, sliding_window=None
    ),
    "qwen3-moe": _named(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        _ROPE,
        num_experts=8,
        num_experts_per_tok=3,
        moe_intermediate_size=136,
        norm_topk_prob=True,
        use_sliding_window=False,
    ),
    "deepseek-v2": _named("deepseek_v2", "DeepseekV2ForCausalLM", _LATENT, first_k_dense_replace=1),
    "deepseek-v3": _named("deepseek_v3", "DeepseekV3ForCausalLM", _LATENT, first_k_dense_replace=1),
    "deepseek-v3-dense": _named("deepseek_v3", "DeepseekV3ForCausalLM", _LATENT, first_k_dense_replace=9),
    "gpt-oss": _named(
        "gpt_oss",
        "GptOssForCausalLM",
        _ROPE,
        num_local_experts=8,
        num_experts_per_tok=2,
        sliding_window=64,
        attention_bias=True,
    ),
    "bert": _named(
        "bert",
        "BertForMaskedLM",
        {},
        hidden_size=192,
        num_attention_heads=6,
        intermediate_size=704,
        vocab_size=503,
        max_position_embeddings=1024,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    ),
    "t5": _named(
        "t5",
        "T5ForConditionalGeneration",
        {},
        layers="num_layers",
        d_model=192,
        d_kv=48,
        d_ff=704,
        num_heads=6,
        vocab_size=503,
        dropout_rate=0.0,
        feed_forward_proj="relu",
        decoder_start_token_id=0,
    ),
    "t5-gated": _named(
        "t5",
        "T5ForConditionalGeneration",
        {},
        layers="num_layers",
        d_model=192,
        d_kv=48,
        d_ff=704,
        num_heads=6,
        vocab_size=503,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
        tie_word_embeddings=False,
    ),
    "gpt-neox": _named(
        "gpt_neox",
        "GPTNeoXForCausalLM",
        {},
        hidden_size=192,
        num_attention_heads=6,
        intermediate_size=704,
        vocab_size=503,
        max_position_embeddings=1024,
        rotary_pct=0.25,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    ),
    "falcon": _named(
        "falcon",
        "FalconForCausalLM",
        {},
        hidden_size=192,
        num_attention_heads=6,
        vocab_size=503,
        multi_query=True,
        parallel_attn=True,
        bias=False,
        alibi=False,
        new_decoder_architecture=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    ),
    "falcon-grouped": _named(
        "falcon",
        "FalconForCausalLM",
        {},
        hidden_size=192,
        num_attention_heads=6,
        num_kv_heads=2,
        vocab_size=503,
        bias=False,
        alibi=False,
        new_decoder_architecture=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    ),
    "bloom": _named(
        "bloom",
        "BloomForCausalLM",
        {},
        layers="n_layer",
        hidden_size=192,
        n_head=6,
        vocab_size=503,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    ),
    "phi": _named(
        "phi",
        "PhiForCausalLM",
        {},
        hidden_size=192,
        num_attention_heads=6,
        num_key_value_heads=6,
        intermediate_size=704,
        vocab_size=503,
        max_position_embeddings=1024,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attention_dropout=0.0,
    ),
    "phi3": _named("phi3", "Phi3ForCausalLM", _ROPE, resid_pdrop=0.0, sliding_window=None, pad_token_id=0),
    "opt": _named(
        "opt",
        "OPTForCausalLM",
        {},
        hidden_size=192,
        num_attention_heads=6,
        ffn_dim=704,
        vocab_size=503,
        max_position_embeddings=1024,
        word_embed_proj_dim=192,
        dropout=0.0,
        attention_dropout=0.0,
    ),
    "starcoder2": _named(
        "starcoder2",
        "Starcoder2ForCausalLM",
        _ROPE,
        use_bias=True,
        residual_dropout=0.0,
        embedding_dropout=0.0,
        hidden_act="gelu_pytorch_tanh",
        sliding_window=None,
    ),
    "olmo2": _named("olmo2", "Olmo2ForCausalLM", _ROPE),
}
PRECISIONS = {"bf16": "bf16-pure", "fp32": "fp32", "autocast": "bf16-mixed", "autocast-16-bit-base": "bf16-mixed"}
ATTENTIONS = {"sdpa": Attention.SDPA, "eager": Attention.EAGER, "flash": Attention.FLASH}


_DROPOUTS = frozenset(
    {
        "attn_pdrop",
        "resid_pdrop",
        "attention_dropout",
        "attention_probs_dropout_prob",
        "hidden_dropout",
        "hidden_dropout_prob",
        "residual_dropout",
        "dropout",
        "dropout_rate",
    }
)
"""Keys of dropout inside a block."""


def config_of(case: Case, layers: int) -> dict[str, Any]:
    """config.json of a case's model of that many blocks; its dropout is what every key of dropout says."""
    config = dict(MODELS[case["model"]])
    layer_keys = config.pop("_layers").split()
    config.update(dict.fromkeys(layer_keys, layers))
    pattern = config.pop("_sliding_window_pattern", None)
    if pattern:
        kinds = ["sliding_attention"] * (pattern - 1) + ["full_attention"]
        config["layer_types"] = [kinds[layer % pattern] for layer in range(layers)]
    return config | dict.fromkeys(_DROPOUTS & config.keys(), case["dropout"])


@cache
def _model(name: str, dropout: float, layers: int) -> Model:
    return model_from_config(config_of({"model": name, "dropout": dropout}, layers))


def predicted(case: Case) -> tuple[int, int]:
    """Bytes of the blocks between the two depths: everything but weight copies, and the copies autocast keeps."""
    deep, shallow = _held(case, DEEP), _held(case, SHALLOW)
    return deep[0] - shallow[0], deep[1] - shallow[1]


def _held(case: Case, layers: int) -> tuple[int, int]:
    model = _model(case["model"], case["dropout"], layers)
    precision = PRESETS[PRECISIONS[case["recipe"]]]
    adapter = None
    if case.get("targets"):
        targets = case["targets"]
        adapter = Adapter(
            method="lora",
            rank=case["rank"],
            targets=targets if isinstance(targets, str) else tuple(targets),
            base_dtype="fp32" if case["recipe"] in ("fp32", "autocast") else "bf16",
        )
        precision = replace(precision, parameters=case["adapter_dtype"])
    recompute = Recompute(mode=RecomputeMode(case["recompute"]))
    recipe: dict[str, Any] = {
        # FSDP runs no autocast; DDP does where parameters are fp32.
        "engine": Engine.DDP if case["recipe"].startswith("autocast") else Engine.FSDP2,
        "zero_stage": 0 if case["recipe"].startswith("autocast") else 3,
        "precision": precision,
        "optimizer": find_optimizer("adamw"),
        "attention": ATTENTIONS[case["attention"]],
        "recompute": recompute,
        "adapter": adapter,
    }
    scenario = scene(model, recipe=recipe, sequence_length=case["sequence"], micro_batch_size=case["micro_batch"])
    stage = Context(scenario).stage
    return int(stage.held[0, 0]), int(stage.weight_copies[0, 0])
