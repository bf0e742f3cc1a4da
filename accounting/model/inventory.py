"""Architecture -> every parameter tensor, in the shapes of the Hugging Face class, exact to the unit."""

from __future__ import annotations

from dataclasses import replace

from accounting.model.architecture import Architecture
from accounting.model.blocks import block_tensors, linear, norm
from accounting.model.classes import ClassNames, class_names
from accounting.model.tensors import Inventory, LayerKind, Tensor

_BERT_LIKE = ("bert", "roberta")


def inventory_of(architecture: Architecture) -> Inventory:
    """Every parameter tensor: embeddings, blocks in pipeline order (an encoder's first), final norm and head.

    Tied weights stand once, under the embedding. Buffers (DeepSeek-V3's router correction) are no parameters and are
    not here, nor is a multi-token-prediction module.
    """
    first = _embeddings(architecture)
    last: list[Tensor] = []
    kinds: list[LayerKind] = []
    pattern: list[int] = []
    if architecture.encoder is not None:
        encoder = architecture.encoder
        if encoder.family != architecture.family:
            first += [replace(tensor, name=f"encoder.{tensor.name}") for tensor in _embeddings(encoder)]
        _add_blocks(encoder, kinds, pattern, encoder_side=True)
        last += _final_norm(encoder, "encoder.")
    _add_blocks(architecture, kinds, pattern, encoder_side=False)
    last += _final_norm(architecture, "")
    last += _head(architecture)
    return Inventory(first=tuple(first), last=tuple(last), kinds=tuple(kinds), pattern=tuple(pattern))


def _embeddings(architecture: Architecture) -> list[Tensor]:
    names = class_names(architecture.family)
    extra, h = architecture.extra, architecture.hidden_size
    tensors: list[Tensor] = []
    if "patch_size" in extra:
        tensors += _patches(architecture)
    if architecture.vocab_size:
        width = extra.get("embedding_size", h)
        tensors.append(
            Tensor(
                name=f"{names.name('embed_tokens')}.weight",
                shape=(architecture.vocab_size, width),
                role="embedding",
                module="embed_tokens",
                tensor_parallel_dim=0,
            )
        )
        if width != h:
            # Not `linear`: they stand outside the blocks, once, and no engine cuts them.
            tensors.append(Tensor(name="model.decoder.project_in.weight", shape=(h, width)))
            tensors.append(Tensor(name="model.decoder.project_out.weight", shape=(width, h)))
    if architecture.learned_positions and architecture.max_positions is not None:
        rows = architecture.max_positions + extra.get("position_offset", 0)
        shape = (1, rows, h) if architecture.family == "vit" else (rows, h)
        tensors.append(Tensor(name=f"{names.name('positions')}.weight", shape=shape, role="position"))
    if "token_types" in extra:
        tensors.append(
            Tensor(name="embeddings.token_type_embeddings.weight", shape=(extra["token_types"], h), role="embedding")
        )
    if architecture.embedding_norm:
        tensors += norm(architecture, names.name("embedding_norm"))
    return tensors


def _patches(architecture: Architecture) -> list[Tensor]:
    """A vision tower's class token and the convolution that cuts an image into patches."""
    h, patch, channels = architecture.hidden_size, architecture.extra["patch_size"], architecture.extra["channels"]
    token_shape = (h,) if architecture.family == "clip" else (1, 1, h)
    tensors = [
        Tensor(name="embeddings.class_embedding", shape=token_shape, role="other"),
        Tensor(name="embeddings.patch_embedding.weight", shape=(h, channels, patch, patch), role="other"),
    ]
    if architecture.family != "clip":
        tensors.append(Tensor(name="embeddings.patch_embedding.bias", shape=(h,), role="bias"))
    return tensors


def _add_blocks(architecture: Architecture, kinds: list[LayerKind], pattern: list[int], *, encoder_side: bool) -> None:
    """Append the distinct kinds of blocks and, block by block, which one stands there."""
    moe = architecture.moe
    seen: dict[tuple[bool, str, bool], int] = {}
    for layer in range(architecture.layers):
        mixture = moe is not None and moe.is_mixture(layer)
        attention = architecture.layer_type(layer)
        first = layer == 0 and "relative_buckets" in architecture.extra
        key = (mixture, attention, first)
        if key not in seen:
            seen[key] = len(kinds)
            words = ["encoder"] * encoder_side + ["first"] * first + [attention] * (attention != "full")
            kinds.append(
                LayerKind(
                    name="-".join([*words, "mixture" if mixture else "dense"]),
                    tensors=block_tensors(architecture, mixture=mixture, attention=attention, first=first),
                    mixture=mixture,
                    encoder=encoder_side,
                    window=architecture.sliding_window if attention == "sliding" else None,
                    attention=attention,
                )
            )
        pattern.append(seen[key])


def _final_norm(architecture: Architecture, prefix: str) -> list[Tensor]:
    if not architecture.final_norm:
        return []
    return norm(architecture, prefix + class_names(architecture.family).name("norm"))


def _head(architecture: Architecture) -> list[Tensor]:
    """What stands on the backbone: projections of two towers, a pooler, a language-model or classification head."""
    h, extra = architecture.hidden_size, architecture.extra
    tensors: list[Tensor] = []
    if "projection" in extra and architecture.encoder is not None:
        width = extra["projection"]
        tensors.append(Tensor(name="visual_projection.weight", shape=(width, h), linear=True))
        text = (width, architecture.encoder.hidden_size)
        tensors.append(Tensor(name="text_projection.weight", shape=text, linear=True))
        tensors.append(Tensor(name="logit_scale", shape=()))
    roberta_head = architecture.family == "roberta" and architecture.head == "classification"
    if "pooler" in extra and not roberta_head:
        tensors += linear("pooler.dense", (h, h), "pooler", "other", cut=None, bias=True)
    build = {"lm": _language_head, "masked_lm": _masked_head, "classification": _classifier}.get(architecture.head)
    return tensors + (build(architecture, class_names(architecture.family)) if build is not None else [])


def _language_head(architecture: Architecture, names: ClassNames) -> list[Tensor]:
    if architecture.tied_embeddings and not architecture.head_bias:
        return []
    width = architecture.extra.get("embedding_size", architecture.hidden_size)
    tensors = linear(
        names.name("lm_head"), (architecture.vocab_size, width), "lm_head", "head", bias=architecture.head_bias
    )
    bias = [
        Tensor(name=t.name, shape=t.shape, role="head", module="lm_head", tensor_parallel_dim=0) for t in tensors[1:]
    ]
    return bias if architecture.tied_embeddings else [*tensors[:1], *bias]


def _masked_head(architecture: Architecture, names: ClassNames) -> list[Tensor]:
    """BERT's: a transform with its norm, the decoder tied to the embedding, a bias per word."""
    h = architecture.hidden_size
    tensors = linear("lm_head.dense", (h, h), "lm_head_transform", "other", cut=None, bias=True)
    tensors += norm(architecture, "lm_head.layer_norm")
    tensors.append(Tensor(name="lm_head.bias", shape=(architecture.vocab_size,), role="head", tensor_parallel_dim=0))
    if not architecture.tied_embeddings:
        tensors += linear(names.name("lm_head"), (architecture.vocab_size, h), "lm_head", "head")
    return tensors


def _classifier(architecture: Architecture, names: ClassNames) -> list[Tensor]:
    """A label head: with bias on encoders, without on decoders (`score`); RoBERTa puts a dense layer before it."""
    h, labels = architecture.hidden_size, architecture.extra["labels"]
    tensors: list[Tensor] = []
    if architecture.family == "roberta" and "pooler" in architecture.extra:
        tensors += linear("classifier.dense", (h, h), "classifier_dense", "other", cut=None, bias=True)
    name = "score" if architecture.causal else "classifier"
    return tensors + linear(name, (labels, h), name, "other", cut=None, bias=not architecture.causal)
