"""Parameter counts, to the unit, against counts made by the library's own classes."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from accounting.model import model_from_architecture, model_from_config

DATA = Path(__file__).parent / "data"
ROWS = list(csv.DictReader((DATA / "models.csv").read_text().splitlines()))
COUNTS = [json.loads(line) for line in (DATA / "counts.jsonl").read_text().splitlines()]
CLASSES = [json.loads(line) for line in (DATA / "classes.jsonl").read_text().splitlines()]
"""Small models of every family and switch, counted on the meta device by transformers 5.24's own classes."""
CONFIGS = sorted((DATA / "configs").glob("*.json"))

VISION = {"hidden_act": "gelu", "architectures": ["ViTForImageClassification"], "num_labels": 1000}
CLIP_TEXT = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 49408,
    "max_position_embeddings": 77,
}
PUBLISHED_DIFFERS = {
    "falcon-7b": "published files store the tied head twice; the class holds it once",
    "falcon-180b": "published files store the tied head twice; the class holds it once",
    "gemma-3-4b": "text tower only",
    "gemma-3-12b": "text tower only",
    "gemma-3-27b": "text tower only",
}
"""Rows whose exact count differs from the published one for a known reason; the exact count is still met."""

CONFIG_COUNTS = {
    # These three are in no catalog row; the other configs are checked against the row of the same model.
    "real_qwen3.5-27b": 26_895_998_464,
    "built_pythia-1.4b": 1_414_647_808,
    "built_deepseek-coder-6.7b": 6_740_512_768,
}


def integer(row: dict[str, str], key: str) -> int | None:
    return int(row[key]) if row[key] else None


def fields_of(row: dict[str, str]) -> dict[str, Any]:
    """A catalog row in the words of the contract's `architecture` object."""
    fields: dict[str, Any] = {
        "family": row["model_type"],
        "layers": integer(row, "n_decoder_layers") or integer(row, "n_layers"),
        "hidden_size": integer(row, "hidden_size"),
        "heads": integer(row, "n_heads"),
        "kv_heads": integer(row, "n_kv_heads"),
        "head_dim": integer(row, "head_dim"),
        "ffn_size": integer(row, "ffn_size"),
        "vocab_size": integer(row, "vocab_size"),
        "max_positions": integer(row, "max_seq_len"),
        "gated_mlp": row["gated_mlp"] == "yes",
        "tied_embeddings": row["tied_embeddings"] == "yes",
        "norm": row["norm"].split()[0],
        "attention_bias": row["attention_bias"] in ("yes", "qkv only"),
        "mlp_bias": row["mlp_bias"] == "yes",
        "qk_norm": row["qk_norm"] == "yes",
        "learned_positions": row["position_embedding"].startswith("learned"),
    }
    if row["n_experts"]:
        fields["moe"] = {
            "experts": integer(row, "n_experts"),
            "top_k": integer(row, "experts_per_token"),
            "shared_experts": integer(row, "n_shared_experts"),
            "expert_ffn_size": integer(row, "expert_ffn_size"),
            "shared_ffn_size": integer(row, "shared_expert_ffn_size"),
            "first_dense_layers": integer(row, "first_dense_layers"),
            "layer_step": integer(row, "moe_layer_step"),
        }
    if row["mla_kv_lora_rank"]:
        fields["mla"] = {
            name: integer(row, f"mla_{name}")
            for name in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        }
    if row["n_encoder_layers"]:
        fields["encoder"] = {"layers": integer(row, "n_encoder_layers")}
    if row["name"] == "opt-350m":
        fields["extra"] = {"embedding_size": 512}
        fields["final_norm"] = False
    return fields


def vision_config(row: dict[str, str]) -> dict[str, Any]:
    sizes = {
        "hidden_size": integer(row, "hidden_size"),
        "intermediate_size": integer(row, "ffn_size"),
        "num_hidden_layers": integer(row, "n_layers"),
        "num_attention_heads": integer(row, "n_heads"),
        "image_size": 224,
    }
    if row["model_type"] == "vit":
        return {"model_type": "vit", **VISION, **sizes, "patch_size": 14 if "patch14" in row["name"] else 16}
    return {
        "model_type": "clip",
        "architectures": ["CLIPModel"],
        "projection_dim": 768,
        "vision_config": {**sizes, "patch_size": 14},
        "text_config": CLIP_TEXT,
    }


def model_of(row: dict[str, str]) -> Any:
    if row["model_type"] in ("vit", "clip"):
        return model_from_config(vision_config(row), slug=row["name"])
    return model_from_architecture(fields_of(row), slug=row["name"])


def test_the_catalog_is_whole() -> None:
    assert len(ROWS) == 161
    assert len(COUNTS) == 136
    assert len(CONFIGS) == 22


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_catalog_row_counts_to_the_unit(row: dict[str, str]) -> None:
    model = model_of(row)
    assert model.parameters == int(row["exact_params"])
    if row["exact_non_embedding_params"]:
        assert model.parameters - model.embedding_parameters == int(row["exact_non_embedding_params"])
    if row["active_params_per_token"]:
        assert model.active_parameters == int(row["active_params_per_token"])


def test_only_explained_rows_differ_from_the_published_count() -> None:
    differing = {row["name"] for row in ROWS if row["agrees"].startswith("exact ")}
    assert differing == set(PUBLISHED_DIFFERS)


@pytest.mark.parametrize("row", COUNTS, ids=lambda row: row["name"])
def test_config_counts_to_the_unit(row: dict[str, Any]) -> None:
    assert model_from_config(row["config"]).parameters == row["parameters"]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_config_counts_to_the_unit(path: Path) -> None:
    name = path.stem.split("_", 1)[1]
    name = {"gemma2-9b": "gemma-2-9b", "gemma3-1b": "gemma-3-1b", "gptj-6b": "gpt-j-6b"}.get(name, name)
    exact = {row["name"]: int(row["exact_params"]) for row in ROWS}
    expected = CONFIG_COUNTS.get(path.stem) or exact[name]
    assert model_from_config(json.loads(path.read_text())).parameters == expected


@pytest.mark.parametrize("row", CLASSES, ids=lambda row: row["name"])
def test_every_family_and_switch_counts_as_its_class(row: dict[str, Any]) -> None:
    assert model_from_config(row["config"]).parameters == row["parameters"]
