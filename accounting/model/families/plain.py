"""Decoders with a plain two-matrix MLP: GPT-2 and its relatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from accounting.model import steps
from accounting.model.families.habits import ALL_BIASES, GLU_BIASES, LAYER_NORM, OWN_HEADS
from accounting.model.family import Family

_NO_BIASES: Final[Mapping[str, Any]] = {"attention_bias": False, "attention_output_bias": False, "mlp_bias": False}
_GPT2_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "layers": ("n_layer", "num_hidden_layers"),
    "hidden_size": ("n_embd", "hidden_size"),
    "heads": ("n_head", "num_attention_heads"),
    "max_positions": ("n_positions", "max_position_embeddings"),
    "ffn_size": ("n_inner",),
    "activation": ("activation_function",),
    "dropout": ("resid_pdrop",),
    "attention_dropout": ("attn_pdrop",),
}
PLAIN: Final[Mapping[str, Family]] = {
    "phi": Family(
        keys={"qk_norm": ("qk_layernorm",), "dropout": ("resid_pdrop",)},
        defaults={"activation": "gelu_new", "qk_norm": False, "dropout": 0.0},
        traits={
            **LAYER_NORM,
            **ALL_BIASES,
            "head_dim": None,
            "sliding_window": None,
            "norms_per_layer": 1,
            "parallel_block": True,
            "head_bias": True,
        },
    ),
    "gpt2": Family(
        keys=_GPT2_KEYS,
        defaults={"activation": "gelu_new", "tied_embeddings": True, "dropout": 0.1, "attention_dropout": 0.1},
        traits={**LAYER_NORM, **ALL_BIASES, **OWN_HEADS, "learned_positions": True},
        ffn_multiple=4,
    ),
    "gpt_bigcode": Family(
        keys={**_GPT2_KEYS, "kv_heads": ("num_key_value_heads",)},
        defaults={
            "activation": "gelu_pytorch_tanh",
            "tied_embeddings": True,
            "dropout": 0.1,
            "attention_dropout": 0.1,
        },
        traits={**LAYER_NORM, **ALL_BIASES, **OWN_HEADS, "learned_positions": True},
        ffn_multiple=4,
        steps=(steps.multi_query,),
    ),
    "gpt_neo": Family(
        keys={
            **_GPT2_KEYS,
            "layers": ("num_layers", "num_hidden_layers"),
            "hidden_size": ("hidden_size",),
            "heads": ("num_heads", "num_attention_heads"),
            "max_positions": ("max_position_embeddings",),
            "ffn_size": ("intermediate_size",),
            "dropout": ("resid_dropout",),
            "attention_dropout": ("attention_dropout",),
        },
        # PretrainedConfig ties by default and GPT-Neo does not override it.
        defaults={"activation": "gelu_new", "tied_embeddings": True, "dropout": 0.0},
        traits={
            **LAYER_NORM,
            **OWN_HEADS,
            "attention_bias": False,
            "attention_output_bias": True,
            "mlp_bias": True,
            "learned_positions": True,
        },
        ffn_multiple=4,
        steps=(steps.local_attention,),
    ),
    "gpt_neox": Family(
        keys={"dropout": ("hidden_dropout",)},
        defaults={"activation": "gelu", "attention_bias": True, "dropout": 0.0},
        traits={**LAYER_NORM, **OWN_HEADS, "mlp_bias": True, "parallel_block": True},
        steps=(steps.parallel_residual,),
    ),
    "gptj": Family(
        keys=_GPT2_KEYS,
        defaults={"activation": "gelu_new", "dropout": 0.0},
        traits={
            **LAYER_NORM,
            **OWN_HEADS,
            "attention_bias": False,
            "attention_output_bias": False,
            "mlp_bias": True,
            "norms_per_layer": 1,
            "parallel_block": True,
            "head_bias": True,
        },
        ffn_multiple=4,
    ),
    "opt": Family(
        keys={"ffn_size": ("ffn_dim",), "activation": ("activation_function",), "dropout": ("dropout",)},
        defaults={"activation": "relu", "tied_embeddings": True, "dropout": 0.1},
        traits={
            **LAYER_NORM,
            **ALL_BIASES,
            **OWN_HEADS,
            "learned_positions": True,
            # Two rows more than positions: fairseq's padding offset.
            "extra": {"position_offset": 2},
        },
        steps=(steps.opt,),
    ),
    "bloom": Family(
        keys={
            "layers": ("n_layer", "num_hidden_layers"),
            "hidden_size": ("hidden_size", "n_embed"),
            "heads": ("n_head", "num_attention_heads"),
            "max_positions": ("seq_length", "max_position_embeddings"),
            "dropout": ("hidden_dropout",),
        },
        defaults={"tied_embeddings": True, "dropout": 0.0},
        # Its own GELU is one autograd function that keeps the input only, as the fused kernel does.
        traits={**LAYER_NORM, **ALL_BIASES, **OWN_HEADS, "embedding_norm": True, "activation": "gelu_tanh"},
        ffn_multiple=4,
    ),
    "falcon": Family(
        keys={
            "layers": ("num_hidden_layers", "n_layer"),
            "heads": ("num_attention_heads", "n_head"),
            "ffn_size": ("ffn_hidden_size",),
            "activation": ("activation",),
            "attention_bias": ("bias",),
            "mlp_bias": ("bias",),
            "dropout": ("hidden_dropout",),
        },
        defaults={"activation": "gelu", "tied_embeddings": True, "mlp_bias": False, "dropout": 0.0},
        traits={**LAYER_NORM, **OWN_HEADS, "parallel_block": True},
        ffn_multiple=4,
        steps=(steps.falcon,),
    ),
    "mpt": Family(
        keys={
            "layers": ("n_layers",),
            "hidden_size": ("d_model",),
            "heads": ("n_heads",),
            "max_positions": ("max_seq_len",),
            "dropout": ("resid_pdrop",),
        },
        defaults={"tied_embeddings": True, "dropout": 0.0},
        traits={
            **LAYER_NORM,
            **_NO_BIASES,
            **OWN_HEADS,
            "norm_bias": False,
            "ffn_size": None,
            "activation": "gelu",
            "attention_dropout": 0.0,
        },
        steps=(steps.mpt,),
    ),
    "starcoder2": Family(
        keys={"attention_bias": ("use_bias",), "mlp_bias": ("use_bias",), "dropout": ("residual_dropout",)},
        defaults={
            "kv_heads": 2,
            "tied_embeddings": True,
            "activation": "gelu_pytorch_tanh",
            "attention_bias": True,
            "mlp_bias": True,
            "dropout": 0.0,
        },
        traits=LAYER_NORM,
    ),
    "nemotron": Family(
        keys=GLU_BIASES,
        defaults={"activation": "relu2", "mlp_bias": False},
        traits={**LAYER_NORM, "sliding_window": None},
    ),
}
