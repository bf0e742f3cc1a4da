"""Requests to change one thing in, and a context without a database: the shipped catalog files and two models."""

from __future__ import annotations

import copy
from typing import Any

from accounting.model import Model, model_from_config
from accounting.naming import resolve_name
from hardware.records import catalog_from_csv
from planner.requests import RequestContext

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "attention_bias": False,
    "mlp_bias": False,
}
MIXTRAL = {
    **LLAMA,
    "model_type": "mixtral",
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}
MODELS = {"llama-3-8b": LLAMA, "mixtral-8x7b": MIXTRAL}


def find_model(text: str) -> Model:
    slug = resolve_name(text, MODELS, kind="model")
    return model_from_config(MODELS[slug], slug=slug)


CONTEXT = RequestContext(catalog=catalog_from_csv(), find_model=find_model, pools={})

ESTIMATE: dict[str, Any] = {
    "model": "llama-3-8b",
    "hardware": {"accelerator": "h100-sxm5-80gb", "count": 64, "node_type": "aws-p5-48xlarge"},
    "parallelism": {
        "dp_replicate": 1,
        "dp_shard": 64,
        "tp": 1,
        "cp": 1,
        "pp": 1,
        "vpp": 1,
        "ep": 1,
        "sequence_parallel": True,
    },
    "sharding": {"engine": "fsdp2", "zero_stage": 3},
    "precision": "bf16-mixed",
    "optimizer": "adamw",
    "batch": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 64},
    "recompute": "none",
    "attention": "flash",
    "offload": {"optimizer": "none", "parameters": "none", "activations": "none"},
    "adapter": None,
    "options": {},
}
MINIMAL: dict[str, Any] = {
    "model": "llama-3-8b",
    "hardware": {"accelerator": "h100-sxm5-80gb"},
    "batch": {"sequence_length": 4096},
}
PLAN: dict[str, Any] = {
    "model": "llama-3-8b",
    "workload": {"tokens": 15000000000, "sequence_length": 8192, "global_batch_tokens": 1048576},
    "hardware": {"accelerators": ["h100-sxm5-80gb"], "pricing": ["on-demand"], "max_count": 64},
}

REMOVED = object()


def put(document: dict[str, Any], *changes: tuple[str, Any]) -> dict[str, Any]:
    """A deep copy with the values at the pointers replaced, parents made where they are missing."""
    result = copy.deepcopy(document)
    for pointer, value in changes:
        *parents, last = pointer.strip("/").split("/")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is REMOVED:
            del place[last]
        else:
            place[last] = value
    return result
