"""Jobs people often ask for, as a start of the new-plan form: rows, so that a new one needs no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.web.form import Start


@dataclass(frozen=True)
class Preset:
    """A name, one line of what it is, and the fields it fills in."""

    slug: str
    name: str
    about: str
    start: Start = field(default_factory=dict)


PRESETS = (
    Preset(
        "pretrain-8b",
        "Pretrain 8 B",
        "Llama 3 8B on 15 B tokens, any GPU, at most 64",
        {"model": "llama-3-8b", "tokens": "15e9", "sequence_length": "8192", "global_batch_tokens": "1048576"},
    ),
    Preset(
        "finetune-8b",
        "Fine-tune 8 B on one node",
        "all weights, 500 M tokens, at most 8 GPUs",
        {
            "model": "llama-3.1-8b",
            "tokens": "500e6",
            "sequence_length": "4096",
            "global_batch_tokens": "131072",
            "max_count": "8",
            "optimizers": ("adamw", "adamw-8bit"),
        },
    ),
    Preset(
        "pretrain-70b",
        "Pretrain 70 B",
        "Llama 3 70B on 100 B tokens, tensor and pipeline parallel, at most 256",
        {
            "model": "llama-3-70b",
            "tokens": "100e9",
            "sequence_length": "8192",
            "global_batch_tokens": "4194304",
            "accelerators": ("h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm"),
            "max_count": "256",
            "engines": ("fsdp2", "megatron"),
        },
    ),
    Preset(
        "experts-8x7b",
        "Mixture of experts",
        "Mixtral 8x7B on 20 B tokens, at most 64",
        {
            "model": "mixtral-8x7b",
            "tokens": "20e9",
            "sequence_length": "4096",
            "global_batch_tokens": "2097152",
            "accelerators": ("h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm"),
        },
    ),
)
_BY_SLUG: Mapping[str, Preset] = {row.slug: row for row in PRESETS}


def preset_start(slug: str) -> Start:
    """The fields a preset fills in; none for an unknown one."""
    row = _BY_SLUG.get(slug)
    return {} if row is None else row.start
