"""A Hugging Face config.json read into an Architecture: data only, nothing in it is ever imported or run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from accounting.model.architecture import Architecture
from accounting.model.draft import build, finish_windows
from accounting.model.errors import ConfigError
from accounting.model.families import FAMILIES, LLAMA, SAME_AS, known_types
from accounting.model.family import ACTIVATIONS, COMMON_DEFAULTS, COMMON_KEYS, COMMON_TRAITS, Draft, Family
from accounting.model.mixture import read_latent_attention, read_mixture
from accounting.model.reader import LIMITS, MISSING, Reader, nearest, shown

GENERIC_KEYS: Final = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "vocab_size",
)
"""With all of these an unknown model type is read as Llama's block, with a warning."""

_NULLABLE: Final = frozenset({"kv_heads", "head_dim", "sliding_window", "max_positions"})
_FLAGS: Final = ("tied_embeddings", "attention_bias", "mlp_bias", "qk_norm")
_NUMBERS: Final = ("attention_dropout", "dropout")
_LAYER_TYPES: Final[Mapping[str, str]] = {
    "full_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "linear_attention": "linear",
}
_HEADS: Final = (
    ("ForMaskedLM", "masked_lm"),
    ("ForPreTraining", "masked_lm"),
    ("ForSequenceClassification", "classification"),
    ("ForTokenClassification", "classification"),
    ("ForImageClassification", "classification"),
    ("ForCausalLM", "lm"),
    ("LMHeadModel", "lm"),
    ("ForConditionalGeneration", "lm"),
    ("EncoderModel", "none"),
    ("Model", "none"),
)
_BARE: Final = frozenset({"bert", "roberta", "vit", "clip"})
"""Families whose plain class is the backbone, not a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReading:
    """What a description says, and what a reader of the answer should know about how it was read."""

    architecture: Architecture
    warnings: tuple[str, ...] = ()


def read_config(config: Mapping[str, Any]) -> ConfigReading:
    """Read a config.json already parsed from JSON.

    Raises ConfigError with every fault found (pointers below the config). Values missing from the file are taken from
    transformers' config class where the family row knows them, and named in `warnings`; sizes are never guessed.
    """
    if not isinstance(config, Mapping):
        reader = Reader({})
        reader.fault("", "not_an_object", f"a config.json is a JSON object, not {shown(config)}")
        raise ConfigError(reader.faults)
    reader = Reader(config)
    inner, name, family = _tower(reader)
    if family is None:
        raise ConfigError(reader.faults)
    draft = _draft(inner, name, family)
    if name == "clip":
        _second_tower(reader, draft)
    return ConfigReading(architecture=build(inner, draft), warnings=inner.all_warnings())


def _tower(reader: Reader) -> tuple[Reader, str, Family | None]:
    """The reader of the object that describes the counted tower, its family's name and row."""
    source = reader.source
    outer_type = source.get("model_type")
    row = FAMILIES.get(_canonical(outer_type))
    key = row.inner if row is not None else "text_config"
    inner = reader
    if isinstance(source.get(key), Mapping):
        nested = dict(source[key])
        # Older composite files keep this one switch outside.
        if "tie_word_embeddings" in source:
            nested.setdefault("tie_word_embeddings", source["tie_word_embeddings"])
        inner = reader.nested(nested, key)
        if key == "text_config":
            reader.warn("only the text tower is counted: the vision or audio tower of this config is left out")
    elif key in source and source[key] is not None:
        reader.fault(key, "not_an_object", f"{key} must be an object, not {shown(source[key])}")
        return reader, "", None
    named = inner.source.get("model_type", outer_type) if _canonical(outer_type) != "clip" else outer_type
    name = _canonical(named)
    if name not in FAMILIES and _canonical(outer_type) in FAMILIES:
        name = _canonical(outer_type)
    if name in FAMILIES:
        return inner, name, FAMILIES[name]
    return inner, "llama", _unknown(inner, named)


def _canonical(model_type: Any) -> str:
    """The name of the row that reads a model type; the empty string for what is not text."""
    return SAME_AS.get(model_type, model_type) if isinstance(model_type, str) else ""


def _unknown(reader: Reader, named: Any) -> Family | None:
    """Llama's row where every generic key is there; else a fault that lists what is known."""
    if named is not None and not isinstance(named, str):
        reader.fault("model_type", "not_a_string", f"model_type must be a string, not {shown(named)}")
        return None
    if all(key in reader.source for key in GENERIC_KEYS):
        what = f"model_type {shown(named)} is unknown" if named else "model_type is missing"
        reader.warn(f"{what}: read as a Llama block by the generic keys, so counts may differ from its own class")
        return LLAMA
    known = ", ".join(known_types())
    if named is None:
        reader.fault("model_type", "required", f"model_type is missing; one of {known}")
        return None
    lacking = ", ".join(key for key in GENERIC_KEYS if key not in reader.source)
    detail = f"model_type {shown(named)} is unknown{nearest(named, known_types())}, and it lacks {lacking}"
    reader.fault("model_type", "unknown_model_type", f"{detail} to be read as a Llama block; known: {known}")
    return None


def _draft(reader: Reader, name: str, family: Family) -> Draft:
    """Everything the config and its class say, as keyword arguments of an Architecture."""
    draft = common_draft(reader, name, family)
    _read_layer_types(reader, draft)
    for step in family.steps:
        step(reader, draft)
    if family.window_switch is not None and reader.flag((family.window_switch,), False) is not True:
        draft["sliding_window"] = None
    draft["window_period"] = family.window_period
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        if key in reader.source:
            draft["window_period"] = reader.integer((key,), family.window_period, high=LIMITS["layers"])
    if family.window_switch is not None and draft["sliding_window"] is not None:
        draft["window_from"] = reader.integer(("max_window_layers",), 28, low=0, high=LIMITS["layers"])
    finish_windows(draft)
    if family.mixture is not None:
        read_mixture(reader, family.mixture, draft)
    if family.latent_attention:
        read_latent_attention(reader, draft)
    _read_head(reader, name, draft)
    if reader.source.get("num_nextn_predict_layers") or reader.source.get("mtp_num_hidden_layers"):
        reader.warn("the multi-token-prediction module is not counted: the library's class does not build it")
    if reader.source.get("auto_map") is not None:
        reader.warn(f"auto_map is ignored: no code is run, the config is read as model type {name}")
    if reader.source.get("quantization_config") is not None:
        reader.warn("quantization_config is ignored: the precision and the adapter of the request say what is stored")
    return draft


def common_draft(reader: Reader, name: str, family: Family) -> Draft:
    """The fields every family has, read under its own keys; what its class fixes is not read at all."""
    traits = {key: value for key, value in COMMON_TRAITS.items() if key not in family.keys} | dict(family.traits)
    keys = {**COMMON_KEYS, **family.keys}
    defaults = {**COMMON_DEFAULTS, **family.defaults}
    draft: Draft = {
        "family": name,
        **traits,
        "keys": {field: reader.key_of(aliases) for field, aliases in keys.items()},
    }
    for field, aliases in keys.items():
        if field in traits and field not in family.keys:
            continue
        default = defaults.get(field, MISSING)
        if field == "max_positions" and traits.get("learned_positions"):
            default = MISSING  # a table of that many rows
        if field in _FLAGS:
            draft[field] = reader.flag(aliases, default)
        elif field in _NUMBERS:
            draft[field] = reader.number(aliases, default)
        elif field == "activation":
            draft[field] = reader.choice(aliases, ACTIVATIONS, default)
        else:
            draft[field] = _size(reader, field, aliases, default, family)
    if family.ffn_multiple is not None and draft.get("ffn_size") is None and isinstance(draft["hidden_size"], int):
        draft["ffn_size"] = family.ffn_multiple * draft["hidden_size"]
    return draft


def _size(reader: Reader, field: str, aliases: tuple[str, ...], default: Any, family: Family) -> Any:
    if field == "ffn_size" and family.ffn_multiple is not None:
        return reader.integer(aliases, None, high=LIMITS["ffn_size"])
    low = 0 if field == "sliding_window" else 1
    high = LIMITS.get(field, LIMITS["max_positions"])
    return reader.integer(aliases, default, low=low, high=high, nullable=field in _NULLABLE)


def _read_layer_types(reader: Reader, draft: Draft) -> None:
    """The file's own list of attention kinds, where it holds one."""
    listed = reader.items(
        "layer_types", lambda item: isinstance(item, str) and item in _LAYER_TYPES, ", ".join(_LAYER_TYPES)
    )
    if listed is None:
        return
    if len(listed) != draft["layers"]:
        if isinstance(draft["layers"], int):
            reader.fault("layer_types", "wrong_length", f"{len(listed)} kinds stand for {draft['layers']} layers")
        return
    draft["layer_types"] = tuple(_LAYER_TYPES[item] for item in listed)


def _read_head(reader: Reader, name: str, draft: Draft) -> None:
    """Which head stands on the backbone, from the name of the class in `architectures` (text, never imported)."""
    listed = reader.root.get("architectures")
    if listed is not None and not (isinstance(listed, list) and all(isinstance(item, str) for item in listed)):
        reader.fault("architectures", "wrong_list", f"architectures must be a list of class names, not {shown(listed)}")
        return
    bare = "none" if name in _BARE else "lm"
    if not listed:
        if name in _BARE:
            reader.warn("architectures is not stated: counted as the bare backbone without a task head")
        draft["head"] = bare
        return
    draft["head"] = next((head for ending, head in _HEADS if listed[0].endswith(ending)), bare)
    if draft["head"] == "classification":
        labels = reader.source.get("id2label")
        known = len(labels) if isinstance(labels, Mapping) and labels else 2
        count = reader.integer(("num_labels",), None, high=LIMITS["other"])
        if count is None and not isinstance(labels, Mapping):
            reader.default_used("num_labels", 2)
        draft["extra"] = {**draft.get("extra", {}), "labels": known if count is None else count}
    draft["pooler"] = not listed[0].endswith(("ForMaskedLM", "ForTokenClassification"))


def _second_tower(reader: Reader, draft: Draft) -> None:
    """CLIP's text tower beside its vision tower, and the width both are projected to."""
    width = reader.integer(("projection_dim",), 512, high=LIMITS["hidden_size"])
    text = reader.source.get("text_config")
    if not isinstance(text, Mapping):
        reader.fault("text_config", "required", "a CLIP config needs text_config, an object, beside vision_config")
        return
    inner = reader.nested(text, "text_config")
    tower = common_draft(inner, "clip_text_model", FAMILIES["clip_text_model"])
    draft["encoder_draft"] = {**tower, "head": "none"}
    draft["extra"] = {**draft.get("extra", {}), "projection": width}
