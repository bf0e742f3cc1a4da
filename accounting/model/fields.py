"""The contract's own `architecture` object, for models that no config.json describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from accounting.model.architecture import LatentAttention, MixtureOfExperts
from accounting.model.draft import build, finish_windows
from accounting.model.errors import ConfigError
from accounting.model.families import FAMILIES, LLAMA, SAME_AS, known_types
from accounting.model.family import ACTIVATIONS, COMMON_TRAITS, Draft, Family
from accounting.model.huggingface import ConfigReading
from accounting.model.reader import LIMITS, MISSING, Reader, nearest, shown

_SIZES: Final = ("layers", "hidden_size", "heads", "ffn_size", "vocab_size")
_OPTIONAL_SIZES: Final = ("kv_heads", "head_dim", "max_positions", "sliding_window", "norms_per_layer")
_FLAGS: Final[Mapping[str, bool]] = {
    "gated_mlp": True,
    "learned_positions": False,
    "tied_embeddings": False,
    "attention_bias": False,
    "attention_output_bias": False,
    "mlp_bias": False,
    "qk_norm": False,
    "parallel_block": False,
    "norm_bias": True,
    "norm_weight": True,
    "attention_sinks": False,
    "head_bias": False,
    "causal": True,
    "embedding_norm": False,
    "final_norm": True,
    "attention_softcap": False,
    "final_softcap": False,
}
_NUMBERS: Final = ("dropout", "attention_dropout")
_CHOICES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "norm": ("rmsnorm", {"layernorm": "layernorm", "rmsnorm": "rmsnorm"}),
    "activation": ("silu", ACTIVATIONS),
    "head": ("lm", {word: word for word in ("lm", "masked_lm", "classification", "none")}),
}
_OBJECTS: Final = ("moe", "mla", "encoder", "extra")
FIELDS: Final = ("family", *_SIZES, *_OPTIONAL_SIZES, *_FLAGS, *_NUMBERS, *_CHOICES, "layer_types", *_OBJECTS)
"""Every member of an `architecture` object."""

_MOE: Final = (
    "experts",
    "top_k",
    "shared_experts",
    "expert_ffn_size",
    "shared_ffn_size",
    "first_dense_layers",
    "layer_step",
)
_MOE_FLAGS: Final = ("router_bias", "expert_bias", "shared_gate")
_MLA: Final = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_EXTRA: Final[Mapping[str, Mapping[str, int]]] = {
    "bert": {"token_types": 2},
    "roberta": {"token_types": 1},
    "t5": {"relative_buckets": 32},
    "opt": {"position_offset": 2},
}
"""Rare counts of a family's published models, taken where `extra` does not say otherwise."""
_EXTRA_NAMES: Final = (
    "token_types",
    "relative_buckets",
    "position_offset",
    "embedding_size",
    "labels",
    "patch_size",
    "channels",
)
_DERIVED_NORMS: Final[Mapping[str, str]] = {"falcon": "kv_heads", "stablelm": "parallel_block"}
"""Families whose number of norms follows from another field, 1 where that field is 1 or true."""


def read_architecture(fields: Mapping[str, Any]) -> ConfigReading:
    """Read the contract's `architecture` object.

    Raises ConfigError with every fault (pointers below the object). Sizes must be stated; what a family's class fixes
    (norm, biases, positions …) comes from its row where the object is silent, and `warnings` names it.
    """
    if not isinstance(fields, Mapping):
        reader = Reader({})
        reader.fault("", "not_an_object", f"an architecture is a JSON object, not {shown(fields)}")
        raise ConfigError(reader.faults)
    reader = Reader(fields)
    reader.unknown_members(FIELDS)
    name, family = _family(reader)
    draft = _draft(reader, name, family, {})
    encoder = _object(reader, "encoder")
    if encoder is not None:
        encoder.unknown_members([field for field in FIELDS if field not in ("family", "encoder")])
        encoder.warn("members the encoder does not state are the decoder's")
        inherited = {key: value for key, value in draft.items() if key not in ("moe", "mla", "layer_types")}
        draft["encoder_draft"] = {
            **_draft(encoder, name, family, inherited),
            "causal": False,
            "head": "none",
        }
    if family.steps and "linear_attention" in {step.__name__ for step in family.steps}:
        detail = f"{name} mixes linear attention, which these fields cannot say; give its config.json instead"
        reader.fault("family", "needs_config", detail)
    return ConfigReading(architecture=build(reader, draft), warnings=reader.all_warnings())


def _family(reader: Reader) -> tuple[str, Family]:
    word = reader.source.get("family")
    if word is None:
        reader.warn("family is not stated: read as a Llama block")
        return "llama", LLAMA
    if not isinstance(word, str):
        reader.fault("family", "not_a_string", f"family must be a model type, not {shown(word)}")
        return "llama", LLAMA
    name = SAME_AS.get(word, word)
    if name in FAMILIES:
        return name, FAMILIES[name]
    reader.warn(f"family {shown(word)} is unknown{nearest(word, known_types())}: read as a Llama block")
    return "llama", LLAMA


def _draft(reader: Reader, name: str, family: Family, inherited: Draft) -> Draft:
    """Fields stated, else inherited (an encoder from its decoder), else what the family's class does."""
    habits: Draft = {**COMMON_TRAITS, **family.defaults, **family.traits, **inherited}
    draft: Draft = {"family": name, "qk_norm_width": habits.get("qk_norm_width", "head")}
    draft.update(_sizes(reader, family, habits, inherited))
    _habits(reader, draft, family, habits)
    _finish_norms(draft, name, habits)
    if draft["ffn_size"] is None and isinstance(draft["hidden_size"], int) and family.ffn_multiple is not None:
        draft["ffn_size"] = family.ffn_multiple * draft["hidden_size"]
    _read_layer_types(reader, draft)
    draft["window_period"] = family.window_period
    finish_windows(draft)
    _read_moe(reader, draft, family)
    _read_mla(reader, draft)
    _read_extra(reader, draft, name)
    return draft


def _sizes(reader: Reader, family: Family, habits: Draft, inherited: Draft) -> Draft:
    """The widths and counts; an encoder's that it does not state are its decoder's."""
    sizes: Draft = {}
    for field in (*_SIZES, *_OPTIONAL_SIZES):
        if field in inherited and reader.source.get(field) is None:
            sizes[field] = inherited[field]
            continue
        default: Any = None if field in _OPTIONAL_SIZES else MISSING
        if field == "ffn_size" and family.ffn_multiple is not None:
            default = None
        # A vision tower has no vocabulary, and a window of 0 is how some files say none.
        low = 0 if field == "sliding_window" or (field == "vocab_size" and habits.get("vocab_size") == 0) else 1
        if field == "vocab_size" and low == 0:
            default = 0
        high = LIMITS.get(field, LIMITS["max_positions"])
        sizes[field] = reader.integer((field,), default, low=low, high=high, nullable=field in _OPTIONAL_SIZES)
    return sizes


def _habits(reader: Reader, draft: Draft, family: Family, habits: Draft) -> None:
    """Flags, dropouts and words: stated, else the family's, named among the defaults taken."""
    for field, plain in _FLAGS.items():
        draft[field] = _habit(reader, field, habits.get(field, plain))
    for field in _NUMBERS:
        draft[field] = (
            reader.number((field,), habits.get(field, 0.0)) if field in reader.source else habits.get(field, 0.0)
        )
    for field, (usual, known) in _CHOICES.items():
        word = habits.get(field) or usual
        if field == "activation" and draft["family"] == "t5":
            word = "gelu_new" if draft["gated_mlp"] is True else "relu"
        if field in reader.source:
            draft[field] = reader.choice((field,), known)
        else:
            draft[field] = known.get(word, word)
    # An output bias that nobody states goes with the other biases, unless the class fixes it: always, where the others
    # are its user's choice (GLM-4.5), and as long as they are as the class has them (Qwen2, GPT-Neo).
    stated = reader.source.get("attention_bias")
    departs = "attention_bias" in family.traits and stated not in (None, family.traits["attention_bias"])
    if "attention_output_bias" not in reader.source and ("attention_output_bias" not in habits or departs):
        draft["attention_output_bias"] = draft["attention_bias"]


def _habit(reader: Reader, field: str, habit: bool) -> Any:
    if field in reader.source:
        return reader.flag((field,))
    if habit != _FLAGS[field]:
        reader.default_used(field, habit)
    return habit


def _finish_norms(draft: Draft, name: str, habits: Draft) -> None:
    if draft["norms_per_layer"] is None:
        deciding = _DERIVED_NORMS.get(name)
        derived = 1 if deciding is not None and draft[deciding] in (1, True) else 2
        draft["norms_per_layer"] = habits.get("norms_per_layer") or derived


def _read_layer_types(reader: Reader, draft: Draft) -> None:
    listed = reader.items("layer_types", lambda item: item in ("full", "sliding"), "'full' and 'sliding'")
    if listed is None:
        return
    if len(listed) != draft["layers"]:
        reader.fault("layer_types", "wrong_length", f"{len(listed)} kinds stand for {shown(draft['layers'])} layers")
    elif "sliding" in listed and draft["sliding_window"] is None:
        reader.fault("layer_types", "contradiction", "sliding layers need a sliding_window")
    else:
        draft["layer_types"] = tuple(listed)


def _object(reader: Reader, key: str) -> Reader | None:
    found = reader.source.get(key)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        reader.fault(key, "not_an_object", f"{key} must be an object or null, not {shown(found)}")
        return None
    return reader.nested(found, key)


def _read_moe(reader: Reader, draft: Draft, family: Family) -> None:
    inner = _object(reader, "moe")
    if inner is None:
        return
    inner.unknown_members([*_MOE, *_MOE_FLAGS])
    row = family.mixture
    fallback = {"shared_experts": 0, "first_dense_layers": 0, "layer_step": 1}
    read = {
        key: inner.integer(
            (key,),
            None if key in fallback or key == "shared_ffn_size" else MISSING,
            low=0 if key in ("shared_experts", "shared_ffn_size", "first_dense_layers") else 1,
            high=LIMITS["other"],
            nullable=key in fallback or key == "shared_ffn_size",
        )
        for key in _MOE
    }
    read = {key: fallback.get(key) if value is None else value for key, value in read.items()}
    for key in _MOE_FLAGS:
        read[key] = inner.flag((key,)) if key in inner.source else getattr(row, key, False)
    if MISSING in read.values():
        return
    if read["shared_ffn_size"] is None:
        read["shared_ffn_size"] = read["shared_experts"] * read["expert_ffn_size"]
    if not read["shared_ffn_size"]:
        read["shared_gate"] = False
    if read["top_k"] > read["experts"]:
        inner.fault("top_k", "out_of_range", f"top_k={read['top_k']} is more than experts={read['experts']}")
    draft["moe"] = MixtureOfExperts(**read)


def _read_mla(reader: Reader, draft: Draft) -> None:
    inner = _object(reader, "mla")
    if inner is None:
        return
    inner.unknown_members(["q_lora_rank", *_MLA])
    read = {key: inner.integer((key,), high=LIMITS["other"]) for key in _MLA}
    rank = inner.integer(("q_lora_rank",), None, high=LIMITS["other"], nullable=True)
    if MISSING in read.values() or rank is MISSING:
        return
    draft["mla"] = LatentAttention(q_lora_rank=rank, **read)
    width = read["qk_nope_head_dim"] + read["qk_rope_head_dim"]
    if draft["head_dim"] not in (None, MISSING, width):
        detail = f"head_dim={draft['head_dim']} contradicts mla, whose query heads are {width} wide; leave it out"
        reader.fault("head_dim", "contradiction", detail)
    draft["head_dim"] = width


def _read_extra(reader: Reader, draft: Draft, name: str) -> None:
    draft["extra"] = dict(_EXTRA.get(name, {}))
    inner = _object(reader, "extra")
    if inner is not None:
        inner.unknown_members(_EXTRA_NAMES)
        for key in inner.source:
            if key in _EXTRA_NAMES:
                draft["extra"][key] = inner.integer((key,), high=LIMITS["other"])
    if draft["head"] == "classification" and "labels" not in draft["extra"]:
        reader.fault("extra", "required", "a classification head needs extra.labels, the number of labels")
    if name in ("bert", "roberta") and "head" not in reader.source:
        draft["head"] = "none"
