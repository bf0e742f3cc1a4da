"""What single families say beyond the common fields: BERT's token types, OPT's projection, Falcon's head groups …

Each step reads the keys of its class and fills the draft; a draft may hold None where an earlier read failed.
"""

from __future__ import annotations

from typing import Any

from accounting.model.architecture import LinearAttention
from accounting.model.family import ACTIVATIONS, Draft
from accounting.model.reader import LIMITS, MISSING, Reader, shown


def _extra(draft: Draft, **counts: Any) -> None:
    draft["extra"] = {**draft.get("extra", {}), **{key: value for key, value in counts.items() if value is not MISSING}}


def bert(reader: Reader, draft: Draft) -> None:
    """Token types, of which a sentence pair needs two."""
    types = reader.integer(("type_vocab_size",), 2, high=LIMITS["other"])
    _extra(draft, token_types=types)


def opt(reader: Reader, draft: Draft) -> None:
    """The embedding's own width with its two projections, the optional final norm, biases and norm weights."""
    width = reader.integer(("word_embed_proj_dim",), None, high=LIMITS["hidden_size"])
    if width not in (None, MISSING, draft["hidden_size"]):
        _extra(draft, embedding_size=width)
    before = reader.flag(("do_layer_norm_before",), True)
    removed = reader.flag(("_remove_final_layer_norm",), False)
    affine = reader.flag(("layer_norm_elementwise_affine",), True)
    biased = reader.flag(("enable_bias",), True)
    draft["final_norm"] = before is True and removed is False
    draft.update(norm_weight=affine, norm_bias=affine)
    draft.update(attention_bias=biased, attention_output_bias=biased, mlp_bias=biased)


def falcon(reader: Reader, draft: Draft) -> None:
    """Heads of keys and values, and one or two norms, by the generation of the decoder."""
    new = reader.flag(("new_decoder_architecture",), False)
    multi_query = reader.flag(("multi_query",), True)
    parallel = reader.flag(("parallel_attn",), True)
    norms_in_parallel = reader.integer(("num_ln_in_parallel_attn",), None, low=1, high=2)
    groups = reader.integer(("num_kv_heads", "n_head_kv"), None, high=LIMITS["kv_heads"])
    if new is True:
        draft["kv_heads"] = groups
        draft["parallel_block"] = True
        draft["norms_per_layer"] = 1 if norms_in_parallel == 1 else 2
    else:
        draft["kv_heads"] = 1 if multi_query is True else None
        draft["parallel_block"] = parallel
        draft["norms_per_layer"] = 1 if parallel is True else 2


def multi_query(reader: Reader, draft: Draft) -> None:
    """GPT-BigCode: one head of keys and values, or as many as queries."""
    single = reader.flag(("multi_query",), True)
    draft["kv_heads"] = 1 if single is True else None


def local_attention(reader: Reader, draft: Draft) -> None:
    """GPT-Neo's `attention_layers`, or `attention_types` as [[[kinds], times], …]."""
    window = reader.integer(("window_size",), 256, high=LIMITS["max_positions"])
    kinds = reader.items("attention_layers", lambda item: item in ("global", "local"), "'global' and 'local'")
    if kinds is None:
        kinds = _expanded(reader, draft)
    if kinds is None or window is MISSING:
        return
    if len(kinds) != draft["layers"]:
        reader.fault("attention_types", "wrong_length", f"{len(kinds)} kinds stand for {draft['layers']} layers")
        return
    draft["sliding_window"] = window
    draft["layer_types"] = tuple("sliding" if kind == "local" else "full" for kind in kinds)


def _expanded(reader: Reader, draft: Draft) -> list[str] | None:
    layers = draft["layers"]
    if not isinstance(layers, int):
        return None

    def group(item: Any) -> bool:
        return (
            isinstance(item, list)
            and len(item) == len(("kinds", "times"))
            and isinstance(item[0], list)
            and all(kind in ("global", "local") for kind in item[0])
            and isinstance(item[1], int)
            and 0 < item[1] <= LIMITS["layers"]
        )

    groups = reader.items("attention_types", group, "[[kinds], times] pairs")
    if groups is None:
        reader.default_used("attention_types", "global and local in turn")
        return ["global" if layer % 2 == 0 else "local" for layer in range(layers)]
    return [kind for kinds, times in groups for _ in range(times) for kind in kinds][: 2 * layers]


def mpt(reader: Reader, draft: Draft) -> None:
    """The MLP's width as a multiple, and dropout."""
    ratio = reader.integer(("expansion_ratio",), 4, high=1024)
    if isinstance(draft["hidden_size"], int) and ratio is not MISSING:
        draft["ffn_size"] = ratio * draft["hidden_size"]


def t5(reader: Reader, draft: Draft) -> None:
    """Encoder depth, the gate in `feed_forward_proj`, the buckets of relative positions."""
    layers = reader.integer(("num_layers", "num_hidden_layers"), MISSING, high=LIMITS["layers"])
    decoder = reader.integer(("num_decoder_layers",), None, high=LIMITS["layers"])
    draft["layers"] = layers if decoder is None else decoder
    draft["encoder_layers"] = layers
    buckets = reader.integer(("relative_attention_num_buckets",), 32, high=LIMITS["other"])
    _extra(draft, relative_buckets=buckets)
    kinds = {**ACTIVATIONS, **{f"gated-{word}": name for word, name in ACTIVATIONS.items()}, "gated-gelu": "gelu_new"}
    default = "gated-gelu" if reader.source.get("model_type") == "mt5" else "relu"
    word = reader.source.get("feed_forward_proj", default)
    draft["activation"] = reader.choice(("feed_forward_proj",), kinds, default)
    draft["gated_mlp"] = isinstance(word, str) and word.startswith("gated-")


def llama4(reader: Reader, draft: Draft) -> None:
    """Dense blocks have their own width; chunked attention counts as a window of one chunk."""
    dense = reader.integer(("intermediate_size_mlp",), 16384, high=LIMITS["ffn_size"])
    draft["ffn_size"] = dense
    moe_layers = reader.items("moe_layers", lambda item: type(item) is int and 0 <= item < LIMITS["layers"], "layers")
    if moe_layers is not None and isinstance(draft["layers"], int):
        draft["dense_layers"] = tuple(layer for layer in range(draft["layers"]) if layer not in set(moe_layers))
        draft["explicit_mixture"] = True


def linear_attention(reader: Reader, draft: Draft) -> None:
    """The gated delta rule of Qwen3-Next and Qwen3.5, and which blocks use it."""
    read = {
        name: reader.integer((key,), default, high=LIMITS["other"])
        for name, key, default in (
            ("key_heads", "linear_num_key_heads", 16),
            ("value_heads", "linear_num_value_heads", 32),
            ("key_head_dim", "linear_key_head_dim", 128),
            ("value_head_dim", "linear_value_head_dim", 128),
            ("convolution", "linear_conv_kernel_dim", 4),
        )
    }
    if MISSING not in read.values():
        draft["linear_attention"] = LinearAttention(**read, fused_projections=draft.pop("fused_projections", True))
    interval = reader.integer(("full_attention_interval",), 4, high=LIMITS["layers"])
    if not draft.get("layer_types") and isinstance(draft["layers"], int) and interval is not MISSING:
        draft["layer_types"] = tuple(
            "full" if (layer + 1) % interval == 0 else "linear" for layer in range(draft["layers"])
        )


def patches(reader: Reader, draft: Draft) -> None:
    """A vision tower's patch embedding and the positions its image makes."""
    image = reader.integer(("image_size",), 224, high=LIMITS["other"])
    patch = reader.integer(("patch_size",), 16, high=LIMITS["other"])
    channels = reader.integer(("num_channels",), 3, high=LIMITS["other"])
    if MISSING in (image, patch, channels):
        return
    if image % patch:
        reader.fault("patch_size", "not_a_divisor", f"patch_size={patch} does not divide image_size={image}")
        return
    _extra(draft, patch_size=patch, channels=channels)
    draft["max_positions"] = (image // patch) ** 2 + 1


def parallel_residual(reader: Reader, draft: Draft) -> None:
    """GPT-NeoX's and StableLM's switch between parallel and sequential blocks."""
    draft["parallel_block"] = reader.flag(("use_parallel_residual",), draft.get("parallel_block", False))


def stablelm(reader: Reader, draft: Draft) -> None:
    """Parallel blocks share one norm."""
    parallel_residual(reader, draft)
    draft["norms_per_layer"] = 1 if draft["parallel_block"] is True else 2


def softcaps(reader: Reader, draft: Draft) -> None:
    """Gemma's soft caps: present where the number is not null."""
    fallback = draft.pop("softcap_defaults", (None, None))
    keys = ("attn_logit_softcapping", "final_logit_softcapping")
    for key, name, default in zip(keys, ("attention_softcap", "final_softcap"), fallback, strict=True):
        found = reader.source.get(key, default)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
            reader.fault(key, "not_a_number", f"{key} must be a number or null, not {shown(found)}")
            continue
        if key not in reader.source and default is not None:
            reader.default_used(key, default)
        draft[name] = found is not None
