"""The model types that can be read, one row each: transformers' own keys, class defaults and fixed habits.

Source of every default: the config classes of transformers 5.24 (and 4.5x where a key was renamed). Only widths that
published config.json files really leave out have a default here; other sizes must be stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accounting.model.families.encoders import ENCODERS
from accounting.model.families.gated import GATED, LLAMA
from accounting.model.families.mixtures import MIXTURES
from accounting.model.families.plain import PLAIN
from accounting.model.family import Family

FAMILIES: Final[Mapping[str, Family]] = {**GATED, **MIXTURES, **PLAIN, **ENCODERS}

SAME_AS: Final[Mapping[str, str]] = {
    "kimi_k2": "deepseek_v3",
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "mt5": "t5",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_5_text": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5_moe",
    "mistral3": "mistral",
    "xlm-roberta": "roberta",
}
"""Model types whose text tower has the tensors of another row."""


def known_types() -> tuple[str, ...]:
    """Every model type that can be read, sorted."""
    return tuple(sorted({*FAMILIES, *SAME_AS}))


__all__ = ["FAMILIES", "LLAMA", "SAME_AS", "known_types"]
