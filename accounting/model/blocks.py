"""The tensors of one block: attention of three kinds, a dense MLP or a mixture, norms.

Symbols: h hidden_size, q = heads·head_dim, g = kv_heads·head_dim, f ffn_size, E experts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from accounting.model.architecture import Architecture, LinearAttention, MixtureOfExperts
from accounting.model.classes import ClassNames, class_names
from accounting.model.order import in_storage_order
from accounting.model.tensors import Tensor

COLUMN: Final = "column"
"""Tensor parallelism cuts the outputs."""
ROW: Final = "row"
"""Tensor parallelism cuts the inputs; the bias stays whole."""

Parts = tuple[tuple[str, int], ...]


def linear(
    name: str,
    sizes: tuple[int, int],
    word: str,
    role: str,
    *,
    cut: str | None = COLUMN,
    bias: bool = False,
    count: int = 1,
) -> list[Tensor]:
    """Weight [out, in] and bias of a linear layer; `sizes` is (out, in)."""
    return _matrix(name, sizes, ((word, sizes[0]),), role, cut=cut, bias=bias, count=count)


def _matrix(
    name: str, sizes: tuple[int, int], parts: Parts, role: str, *, cut: str | None, bias: bool, count: int = 1
) -> list[Tensor]:
    outputs, inputs = sizes
    word = "+".join(part for part, _ in parts)
    fused = parts if len(parts) > 1 else ()
    weight = Tensor(
        name=f"{name}.weight",
        shape=(outputs, inputs),
        count=count,
        role=role,
        module=word,
        parts=fused,
        linear=True,
        tensor_parallel_dim={COLUMN: 0, ROW: 1}.get(cut or ""),
    )
    if not bias:
        return [weight]
    offset = Tensor(
        name=f"{name}.bias",
        shape=(outputs,),
        count=count,
        role="expert" if role == "expert" else "bias",
        module=word,
        parts=fused,
        tensor_parallel_dim=0 if cut == COLUMN else None,
    )
    return [weight, offset]


def norm(
    architecture: Architecture, name: str, shape: tuple[int, ...] | None = None, bias: bool = True
) -> list[Tensor]:
    """Weight, and for a LayerNorm bias, over the hidden size or `shape`."""
    if not architecture.norm_weight:
        return []
    shape = shape or (architecture.hidden_size,)
    tensors = [Tensor(name=f"{name}.weight", shape=shape, role="norm")]
    if architecture.norm == "layernorm" and architecture.norm_bias and bias:
        tensors.append(Tensor(name=f"{name}.bias", shape=shape, role="norm"))
    return tensors


def block_tensors(
    architecture: Architecture, *, mixture: bool, attention: str, first: bool = False
) -> tuple[Tensor, ...]:
    """Every tensor of a block; `first` adds what only the first one holds (T5's relative positions)."""
    names = class_names(architecture.family)
    if attention == "linear" and architecture.linear_attention is not None:
        tensors = _linear_attention(architecture, architecture.linear_attention)
    elif architecture.mla is not None:
        tensors = _latent_attention(architecture, names)
    else:
        tensors = _attention(architecture, names)
    if first and "relative_buckets" in architecture.extra:
        shape = (architecture.extra["relative_buckets"], architecture.heads)
        place = "SelfAttention.relative_attention_bias.weight"
        tensors.append(Tensor(name=place, shape=shape, role="attention", tensor_parallel_dim=1))
    if architecture.cross_attention:
        tensors += _cross_attention(architecture, names)
    moe = architecture.moe
    tensors += _mixture(architecture, names, moe) if mixture and moe is not None else _mlp(architecture, names)
    count = architecture.norms_per_layer + architecture.cross_attention
    for index in range(count):
        label = names.norms[index] if index < len(names.norms) else f"norm_{index}"
        tensors += norm(architecture, label)
    return in_storage_order(architecture.family, tensors)


def _attention(architecture: Architecture, names: ClassNames) -> list[Tensor]:
    h, q, g = architecture.hidden_size, architecture.query_width, architecture.key_value_width
    gated = 2 * q if architecture.attention_gate else q
    widths: Parts = (("q_proj", gated), ("k_proj", g), ("v_proj", g))
    bias = architecture.attention_bias
    tensors: list[Tensor] = []
    if names.fused_qkv is not None:
        tensors += _matrix(names.fused_qkv, (gated + 2 * g, h), widths, "attention", cut=COLUMN, bias=bias)
    else:
        for word, width in widths:
            tensors += linear(names.name(word), (width, h), word, "attention", bias=bias)
    output_bias = architecture.attention_output_bias
    tensors += linear(names.name("o_proj"), (h, q), "o_proj", "attention", cut=ROW, bias=output_bias)
    if architecture.attention_sinks:
        tensors.append(
            Tensor(name="self_attn.sinks", shape=(architecture.heads,), role="attention", tensor_parallel_dim=0)
        )
    return [*(_transposed(tensor, names) for tensor in tensors), *_qk_norms(architecture, names)]


def _qk_norms(architecture: Architecture, names: ClassNames) -> list[Tensor]:
    if not architecture.qk_norm or architecture.qk_norm_width == "none":
        return []
    tensors = []
    width = architecture.qk_norm_width
    for word, heads in (("q_norm", architecture.heads), ("k_norm", architecture.kv_heads)):
        shape = {
            "heads": (heads, architecture.head_dim),
            "full": (heads * architecture.head_dim,),
        }.get(width, (architecture.head_dim,))
        added = norm(architecture, names.name(word), shape, bias=width == "head")
        tensors += [replace(tensor, count=heads) for tensor in added] if width == "per_head" else added
    return tensors


def _cross_attention(architecture: Architecture, names: ClassNames) -> list[Tensor]:
    h, q, g = architecture.hidden_size, architecture.query_width, architecture.key_value_width
    tensors: list[Tensor] = []
    for word, sizes, cut in (
        ("q_proj", (q, h), COLUMN),
        ("k_proj", (g, h), COLUMN),
        ("v_proj", (g, h), COLUMN),
        ("o_proj", (h, q), ROW),
    ):
        place = f"EncDecAttention.{names.name(word).rsplit('.', 1)[-1]}"
        tensors += linear(place, sizes, word, "attention", cut=cut, bias=architecture.attention_bias)
    return tensors


def _latent_attention(architecture: Architecture, names: ClassNames) -> list[Tensor]:
    """DeepSeek's: queries and keys-with-values each through a low rank with a norm between the two matrices."""
    mla = architecture.mla
    assert mla is not None
    h, a, bias = architecture.hidden_size, architecture.heads, architecture.attention_bias
    query = mla.qk_nope_head_dim + mla.qk_rope_head_dim
    tensors: list[Tensor] = []
    if mla.q_lora_rank is None:
        tensors += linear("self_attn.q_proj", (a * query, h), "q_proj", "attention")
    else:
        rank = mla.q_lora_rank
        tensors += linear("self_attn.q_a_proj", (rank, h), "q_a_proj", "attention", cut=None, bias=bias)
        tensors += norm(architecture, "self_attn.q_a_layernorm", (rank,))
        tensors += linear("self_attn.q_b_proj", (a * query, rank), "q_b_proj", "attention")
    rank = mla.kv_lora_rank
    compressed = (rank + mla.qk_rope_head_dim, h)
    tensors += linear(
        "self_attn.kv_a_proj_with_mqa", compressed, "kv_a_proj_with_mqa", "attention", cut=None, bias=bias
    )
    tensors += norm(architecture, "self_attn.kv_a_layernorm", (rank,))
    expanded = (a * (mla.qk_nope_head_dim + mla.v_head_dim), rank)
    tensors += linear("self_attn.kv_b_proj", expanded, "kv_b_proj", "attention")
    return tensors + linear(names.name("o_proj"), (h, a * mla.v_head_dim), "o_proj", "attention", cut=ROW, bias=bias)


def _linear_attention(architecture: Architecture, shape: LinearAttention) -> list[Tensor]:
    """The gated delta rule: projections, a short depth-wise convolution, decay and step per head, a gated norm."""
    h, key, value, heads = architecture.hidden_size, shape.key_width, shape.value_width, shape.value_heads
    mixed = 2 * key + value
    widths: Parts
    if shape.fused_projections:
        widths = (("in_proj_qkvz", mixed + value), ("in_proj_ba", 2 * heads))
    else:
        widths = (("in_proj_qkv", mixed), ("in_proj_z", value), ("in_proj_b", heads), ("in_proj_a", heads))
    tensors: list[Tensor] = []
    for word, width in widths:
        tensors += linear(f"linear_attn.{word}", (width, h), word, "attention")
    tensors += [
        Tensor(
            name="linear_attn.conv1d.weight",
            shape=(mixed, 1, shape.convolution),
            role="attention",
            tensor_parallel_dim=0,
        ),
        Tensor(name="linear_attn.dt_bias", shape=(heads,), role="attention", tensor_parallel_dim=0),
        Tensor(name="linear_attn.A_log", shape=(heads,), role="attention", tensor_parallel_dim=0),
        Tensor(name="linear_attn.norm.weight", shape=(shape.value_head_dim,), role="norm"),
    ]
    return tensors + linear("linear_attn.out_proj", (h, value), "out_proj", "attention", cut=ROW)


def _mlp(architecture: Architecture, names: ClassNames) -> list[Tensor]:
    h, f, bias = architecture.hidden_size, architecture.ffn_size, architecture.mlp_bias
    tensors: list[Tensor] = []
    if architecture.gated_mlp and names.fused_gate_up is not None:
        parts: Parts = (("gate_proj", f), ("up_proj", f))
        tensors += _matrix(names.fused_gate_up, (2 * f, h), parts, "mlp", cut=COLUMN, bias=bias)
    else:
        for word in ("gate_proj", "up_proj") if architecture.gated_mlp else ("up_proj",):
            tensors += linear(names.name(word), (f, h), word, "mlp", bias=bias)
    tensors += linear(names.name("down_proj"), (h, f), "down_proj", "mlp", cut=ROW, bias=bias)
    return [_transposed(tensor, names) for tensor in tensors]


def _mixture(architecture: Architecture, names: ClassNames, moe: MixtureOfExperts) -> list[Tensor]:
    """Router, experts and shared expert.

    transformers 5 holds the experts of a block stacked, [E, 2f, h] and [E, h, f]; they stand here as E copies of each
    expert's own matrices, since every other engine, checkpoints and expert parallelism split them so. Counts agree.
    """
    h, f = architecture.hidden_size, moe.expert_ffn_size
    router = names.name("router")
    # Not `linear`: transformers 5 keeps the router's weight outside nn.Linear, so no adapter or quantiser touches it.
    tensors = [Tensor(name=f"{router}.weight", shape=(moe.experts, h), role="router", module="router")]
    if moe.router_bias:
        tensors.append(Tensor(name=f"{router}.bias", shape=(moe.experts,), role="router", module="router"))
    tensors += _gated(names.name("experts"), (h, f), "expert", bias=moe.expert_bias, count=moe.experts)
    if moe.shared_ffn_size:
        tensors += _gated(names.name("shared"), (h, moe.shared_ffn_size), "mlp", bias=False, count=1)
    if moe.shared_gate:
        gate = linear(f"{names.name('shared')}_gate", (1, h), "shared_expert_gate", "router", cut=None)
        tensors += gate
    return tensors


def _gated(place: str, sizes: tuple[int, int], role: str, *, bias: bool, count: int) -> list[Tensor]:
    h, f = sizes
    tensors: list[Tensor] = []
    for word in ("gate_proj", "up_proj"):
        tensors += linear(f"{place}.{word}", (f, h), word, role, bias=bias, count=count)
    return tensors + linear(f"{place}.down_proj", (h, f), "down_proj", role, cut=ROW, bias=bias, count=count)


def _transposed(tensor: Tensor, names: ClassNames) -> Tensor:
    """A matrix as Conv1D holds it, [in, out], where the class does."""
    if not names.convolution_weights or not tensor.linear:
        return tensor
    cut = None if tensor.tensor_parallel_dim is None else 1 - tensor.tensor_parallel_dim
    return Tensor(
        name=tensor.name,
        shape=tensor.shape[::-1],
        role=tensor.role,
        module=tensor.module,
        parts=tensor.parts,
        linear=True,
        input_dim=0,
        tensor_parallel_dim=cut,
    )
