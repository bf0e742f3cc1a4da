"""Options of small real searches, one an engine, for the tests of launch files."""

from __future__ import annotations

import json
from typing import Any

from planner.export import Stamp, render
from planner.search import search
from tests.planner.requests.samples import CONTEXT
from tests.planner.search.problems import problem_of

STAMP = Stamp(plan="0b9f7f0e-8c3c-4df0-9d0a-2f6f3a9d6c11", rank=1, engine_version="0.1.0")
TOKENS = 10**9
NODES, DEVICES = 2, 16
TWO_NODES = (
    "/hardware",
    {"accelerators": ["h100-sxm5-80gb"], "providers": ["aws"], "min_count": DEVICES, "max_count": DEVICES},
)
SMALL = (
    "/model",
    {
        "config": {
            "model_type": "llama",
            "hidden_size": 1024,
            "num_hidden_layers": 8,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "intermediate_size": 2816,
            "vocab_size": 32000,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
        }
    },
)


def option_of(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The best option of the small problem with some members changed, as an answer's JSON."""
    answer = search(problem_of(*changes), lambda done, total: None, lambda: False)
    assert answer["options"], answer["rejections"]
    option: dict[str, Any] = answer["options"][0]
    copied: dict[str, Any] = json.loads(json.dumps(option))
    return copied


def fsdp_option(*changes: tuple[str, Any]) -> dict[str, Any]:
    return option_of(TWO_NODES, ("/search/tp", [1]), *changes)


def hybrid_option() -> dict[str, Any]:
    option = fsdp_option()
    option["estimate"]["parallelism"] |= {"dp_replicate": NODES, "dp_shard": DEVICES // NODES, "tp": 1}
    return option


def deepspeed_option(*changes: tuple[str, Any]) -> dict[str, Any]:
    return option_of(
        TWO_NODES, ("/engines", ["deepspeed"]), ("/search/tp", [1]), ("/search/offload", ["cpu"]), *changes
    )


def megatron_option() -> dict[str, Any]:
    return option_of(
        TWO_NODES,
        ("/engines", ["megatron"]),
        ("/precisions", ["bf16-master-fp32grad"]),
        ("/search", {"zero_stages": [1], "tp": [2], "pp": [2], "recompute": ["full"]}),
    )


def text_of(key: str, option: dict[str, Any]) -> str:
    return render(key, option, STAMP, CONTEXT, TOKENS).text
