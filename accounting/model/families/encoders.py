"""Encoders, encoder-decoders and vision towers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from accounting.model import steps
from accounting.model.families.habits import ALL_BIASES, LAYER_NORM, OWN_HEADS
from accounting.model.family import Family

_BERT_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "dropout": ("hidden_dropout_prob",),
    "attention_dropout": ("attention_probs_dropout_prob",),
}
_BERT: Final = Family(
    keys=_BERT_KEYS,
    defaults={"activation": "gelu", "tied_embeddings": True, "dropout": 0.1, "attention_dropout": 0.1},
    traits={
        **LAYER_NORM,
        **ALL_BIASES,
        **OWN_HEADS,
        "learned_positions": True,
        "embedding_norm": True,
        "final_norm": False,
        "causal": False,
    },
    steps=(steps.bert,),
)
_VISION_TRAITS: Final[Mapping[str, Any]] = {
    **LAYER_NORM,
    **ALL_BIASES,
    **OWN_HEADS,
    "learned_positions": True,
    "causal": False,
    "vocab_size": 0,
    "max_positions": None,
    "tied_embeddings": False,
}
ENCODERS: Final[Mapping[str, Family]] = {
    "t5": Family(
        keys={
            "hidden_size": ("d_model", "hidden_size"),
            "heads": ("num_heads", "num_attention_heads"),
            "head_dim": ("d_kv",),
            "ffn_size": ("d_ff",),
            "max_positions": ("n_positions",),
            "dropout": ("dropout_rate",),
            "attention_dropout": ("dropout_rate",),
        },
        defaults={"head_dim": 64, "tied_embeddings": True, "dropout": 0.1, "attention_dropout": 0.1},
        traits={
            "kv_heads": None,
            "sliding_window": None,
            "attention_bias": False,
            "layers": None,
            "activation": None,
        },
        steps=(steps.t5,),
    ),
    "bert": _BERT,
    "roberta": _BERT,
    "vit": Family(
        keys=_BERT_KEYS,
        defaults={"activation": "gelu", "dropout": 0.0, "attention_dropout": 0.0},
        traits=_VISION_TRAITS,
        steps=(steps.patches,),
    ),
    "clip": Family(
        defaults={"activation": "quick_gelu"},
        # The norm that the class spells pre_layrnorm stands right after the embeddings.
        traits={**_VISION_TRAITS, "embedding_norm": True, "dropout": 0.0},
        inner="vision_config",
        steps=(steps.patches,),
    ),
    "clip_text_model": Family(
        defaults={"activation": "quick_gelu"},
        traits={key: value for key, value in _VISION_TRAITS.items() if key not in ("vocab_size", "max_positions")},
    ),
}
