"""The shipped models: rows of models.csv with their config.json files, as the values of a ModelSpec."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

SHIPPED_MODELS = Path(__file__).parent / "data"

FACTS = (
    "architecture_class",
    "published_kind",
    "exact_non_embedding_parameters",
    "how_counted",
    "relative_difference",
    "agrees",
    "position_embedding",
    "learned_position_parameters",
    "config_source",
)
"""Columns kept beside the description for people to read."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """One line's cells by column, read by kind."""

    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        return self.cells[column]

    def integer(self, column: str) -> int | None:
        return int(self.cells[column]) if self.cells[column] else None

    def count(self, column: str) -> int:
        return int(self.cells[column] or 0)

    def flag(self, column: str) -> bool:
        return self.cells[column] == "yes"


def read_models(folder: Path = SHIPPED_MODELS) -> list[dict[str, Any]]:
    """Every shipped model as the attributes of a ModelSpec, in the order of the file."""
    with (folder / "models.csv").open(newline="", encoding="utf-8") as file:
        return [_values(_Cells(cells), folder) for cells in csv.DictReader(file)]


def _values(row: _Cells, folder: Path) -> dict[str, Any]:
    config_file = row.text("config_file")
    return {
        "slug": row.text("name").lower(),
        "name": row.text("name"),
        "family": row.text("family"),
        "aliases": row.text("aliases").split(),
        "config": json.loads((folder / "hf_configs" / config_file).read_text("utf-8")) if config_file else None,
        "architecture": architecture_of(row),
        "exact_parameters": row.integer("exact_parameters"),
        "published_parameters": row.integer("published_parameters"),
        "active_parameters_per_token": row.integer("active_parameters_per_token"),
        "facts": {name: row.text(name) for name in FACTS if row.text(name)},
        "source": row.text("source"),
        "source_date": date.fromisoformat(row.text("source_date")) if row.text("source_date") else None,
        "checked_date": date.fromisoformat(row.text("checked_date")),
        "confidence": row.text("confidence"),
        "note": row.text("note"),
    }


def architecture_of(row: _Cells) -> dict[str, Any]:
    """The contract's `architecture` object for a line of models.csv."""
    norm = row.text("norm")
    biased = row.text("attention_bias")
    fields: dict[str, Any] = {
        "family": row.text("model_type"),
        "layers": row.integer("n_layers"),
        "hidden_size": row.integer("hidden_size"),
        "heads": row.integer("n_heads"),
        "kv_heads": row.integer("n_kv_heads"),
        # Latent attention's query heads are as wide as their two parts together.
        "head_dim": None if row.text("mla_kv_lora_rank") else row.integer("head_dim"),
        "ffn_size": row.integer("ffn_size"),
        "vocab_size": row.count("vocab_size"),
        "max_positions": row.integer("max_seq_len"),
        "gated_mlp": row.flag("gated_mlp"),
        "learned_positions": row.text("position_embedding").startswith("learned"),
        "tied_embeddings": row.flag("tied_embeddings"),
        "norm": norm.split()[0],
        "attention_bias": biased in {"yes", "qkv only"},
        "attention_output_bias": biased in {"yes", "output projection only"},
        "mlp_bias": row.flag("mlp_bias"),
        "qk_norm": row.flag("qk_norm"),
    }
    if "no bias" in norm or "no parameters" in norm:
        fields["norm_bias"] = False
    if "no parameters" in norm:
        fields["norm_weight"] = False
    if row.text("sliding_window"):
        fields["sliding_window"] = row.integer("sliding_window")
    return {**fields, **_mixture(row), **_latent_attention(row), **_encoder(row), **_more(row)}


def _mixture(row: _Cells) -> dict[str, Any]:
    if not row.text("n_experts"):
        return {}
    return {
        "moe": {
            "experts": row.integer("n_experts"),
            "top_k": row.integer("experts_per_token"),
            "shared_experts": row.count("n_shared_experts"),
            "expert_ffn_size": row.integer("expert_ffn_size"),
            "shared_ffn_size": row.count("shared_expert_ffn_size"),
            "first_dense_layers": row.count("first_dense_layers"),
            "layer_step": row.integer("moe_layer_step"),
        }
    }


def _latent_attention(row: _Cells) -> dict[str, Any]:
    if not row.text("mla_kv_lora_rank"):
        return {}
    names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return {"mla": {name: row.integer(f"mla_{name}") for name in names}}


def _encoder(row: _Cells) -> dict[str, Any]:
    if not row.flag("is_encoder_decoder"):
        return {}
    return {"layers": row.integer("n_decoder_layers"), "encoder": {"layers": row.integer("n_encoder_layers")}}


def _more(row: _Cells) -> dict[str, Any]:
    """What only this model has (OPT-350M's narrow embedding, ViT's patches), as architecture members in JSON."""
    text = row.text("more_architecture")
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
