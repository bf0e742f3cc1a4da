"""Habits that several families share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LAYER_NORM: Final[Mapping[str, Any]] = {"norm": "layernorm", "gated_mlp": False}
ALL_BIASES: Final[Mapping[str, Any]] = {"attention_bias": True, "attention_output_bias": True, "mlp_bias": True}
OWN_HEADS: Final[Mapping[str, Any]] = {"kv_heads": None, "head_dim": None, "sliding_window": None}
"""Classes without grouped heads, head_dim or window among their keys."""

GLU_BIASES: Final[Mapping[str, tuple[str, ...]]] = {"mlp_bias": ("mlp_bias",)}
