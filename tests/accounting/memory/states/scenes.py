"""Requests for the models and engines that the measured tables name."""

from __future__ import annotations

from typing import Any

from accounting.scenario import Scenario
from hardware.records import catalog_from_csv
from planner.requests import RequestContext, read_estimate


def _no_model(text: str) -> Any:
    raise KeyError(text)


CONTEXT = RequestContext(catalog=catalog_from_csv(), find_model=_no_model, pools={})
LINEAR = [{"name": "a.weight", "shape": [5, 7]}, {"name": "a.bias", "shape": [5]}]
TOY_ODD = {
    "architectures": ["GPTNeoXForCausalLM"],
    "model_type": "gpt_neox",
    "vocab_size": 1003,
    "hidden_size": 90,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 250,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "hidden_act": "gelu",
}
"""A decoder whose sizes 2 and 4 do not divide: the same tensors, in the same order, as the toy of the table."""
LLAMA_MINI = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 344,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
GPT2_MINI = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_embd": 128,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": 1000,
    "n_positions": 64,
}
MODELS: dict[str, dict[str, Any]] = {
    "lin5": {"tensors": LINEAR},
    "lin41": {"tensors": [{"name": "scale", "shape": [1]}, *LINEAR]},
    "toy-odd": {"config": TOY_ODD},
    "llama-mini": {"config": LLAMA_MINI},
    "gpt2-mini": {"config": GPT2_MINI},
}


def request(model: dict[str, Any], world: int, engine: str, stage: int, **changes: Any) -> dict[str, Any]:
    """An estimate request of `world` data-parallel ranks; members of `changes` replace the plain ones."""
    copies = stage == 0 or changes.pop("replicate", False)
    sequences = world * changes.pop("micro_batches", 1)
    batch = {"sequence_length": 16, "micro_batch_size": 1, "global_batch_size": sequences}
    plain: dict[str, Any] = {
        "model": model,
        "hardware": {"accelerator": "h100-sxm5-80gb", "count": world},
        "parallelism": {"dp_replicate": world if copies else 1, "dp_shard": 1 if copies else world},
        "sharding": {"engine": engine, "zero_stage": stage},
        "precision": "fp32",
        "optimizer": "adamw",
        "batch": batch,
    }
    return plain | changes


def scenario(request: dict[str, Any]) -> Scenario:
    return read_estimate(request, CONTEXT)
