"""Tensors that autograd keeps from one block's forward to its backward: one row a tensor, bytes per token.

Symbols: h hidden, n heads, d head dim, q = n·d, g = kv heads·d, f ffn, e compute bytes, r residual bytes, s sequence,
E experts, k experts per token. Source: measured with saved-tensor hooks on real model code (activations §2, §8);
Korthikanti 2022 eq. 1-4 for the classic block; Megatron-Core for the fused one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from accounting.memory.numerics import Numerics
from accounting.model.architecture import Architecture
from accounting.model.tensors import LayerKind
from accounting.options import Options
from accounting.units import Bytes
from accounting.vocabulary import Attention

SOFTMAX_IN_STREAM_DTYPE = frozenset({"gpt2", "bert", "gpt_bigcode", "roberta"})
FUSED_QKV_FAMILIES = frozenset(
    {"gpt2", "gpt_neox", "bloom", "falcon", "phi3", "mpt", "gpt_bigcode", "starcoder", "chatglm", "glm"}
)
GEMMA_FAMILIES = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text"})
FLASH_MAX_HEAD_DIM = 256


class Split(StrEnum):
    """How tensor parallelism divides a saved tensor."""

    SEQUENCE = "sequence"
    """By tp under sequence parallelism, else whole on every rank."""
    GATHERED = "gathered"
    """Input of a column-parallel matrix: whole under torch's sequence parallelism, the shard under Megatron's."""
    TENSOR = "tensor"
    KV = "kv"
    """Key and value heads: by at most the number of KV heads."""
    EXPERT = "expert"
    """By expert tensor parallelism."""
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Saved:
    """One saved tensor: bytes per token, or per routed token where `routed`."""

    module: str
    name: str
    per_token: int | Bytes
    split: Split
    fixed: int | Bytes = 0
    """Bytes a micro-batch holds whatever its tokens."""
    routed: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Everything the rows of one block read."""

    architecture: Architecture
    kind: LayerKind
    numerics: Numerics
    attention: Attention
    options: Options
    sequence: Bytes
    """Keys a query sees: the whole sequence, (N, 1)."""
    micro_batch: Bytes
    dropout: float
    adapter: AdapterRows | None = None
    """Set where the base is frozen: other rows then."""


@dataclass(frozen=True, slots=True)
class AdapterRows:
    targets: frozenset[str]
    """Logical matrices that carry an adapter."""
    rank: int
    itemsize: int
    """Bytes of an adapter element."""


def kernel_of(block: Block) -> str:
    """`flash`, `efficient`, `math` or `eager`: what scaled-dot-product attention dispatches to (CUDA, sm80 and newer).

    Source: torch 2.13 SDPA chooser: flash takes 16-bit with head dim up to 256; memory-efficient takes fp32 but no GQA.
    """
    architecture = block.architecture
    if block.attention is Attention.EAGER:
        return "eager"
    if block.numerics.compute == 2 and architecture.head_dim <= FLASH_MAX_HEAD_DIM:
        return "flash"
    return "efficient" if architecture.heads == architecture.kv_heads else "math"


def norm_rows(block: Block, width: int, module: str, name: str) -> Saved:
    """A normalisation: its input and statistics; the Hugging Face RMSNorm also keeps fp32 and normalised copies."""
    numerics, architecture = block.numerics, block.architecture
    stream = numerics.residual
    if architecture.norm == "layernorm":
        return Saved(module, name, stream * width + 8, Split.SEQUENCE)
    if numerics.fused_norm:
        return Saved(module, name, stream * width + 4, Split.SEQUENCE)
    if architecture.family in GEMMA_FAMILIES:
        return Saved(module, name, 8 * width + 4, Split.SEQUENCE, fixed=4 * width)
    return Saved(module, name, (4 + stream) * width + 4, Split.SEQUENCE)


def attention_rows(block: Block) -> list[Saved]:
    """From the projections' input to the output projection's input."""
    if block.architecture.mla is not None:
        return latent_rows(block)
    architecture, numerics = block.architecture, block.numerics
    e, h = numerics.compute, architecture.hidden_size
    q, g = architecture.heads * architecture.head_dim, architecture.kv_heads * architecture.head_dim
    copies = 3 if numerics.autocast and architecture.family not in FUSED_QKV_FAMILIES else 1
    rows = [Saved("attention_input", "input of q, k, v", copies * e * h, Split.GATHERED)]
    if architecture.qk_norm:
        rows += [
            Saved("attention_norm", "q norm", (4 + e) * q + 4 * architecture.heads, Split.TENSOR),
            Saved("attention_norm", "k norm", (4 + e) * g + 4 * architecture.kv_heads, Split.KV),
        ]
    if numerics.modules and q == g:
        rows.append(Saved("qkv", "joined q, k, v that q is a view of", 2 * e * q, Split.TENSOR))
    return rows + core_rows(block, q, q, g, g)


def core_rows(block: Block, query: int, output: int, key: int, value: int) -> list[Saved]:
    """Scaled-dot-product attention: q, k, v, out and what the softmax keeps."""
    kernel = kernel_of(block)
    heads = block.architecture.heads
    e = block.numerics.compute
    out = Saved("core_attention_output", "attention output", e * output, Split.TENSOR)
    if kernel == "flash":
        return [
            *_qkv(e, query, key, value),
            out,
            Saved("core_attention", "log-sum-exp", 4 * heads, Split.TENSOR, fixed=24),
            *_window_mask(block, query - key, query - value),
        ]
    if kernel == "efficient":
        padded = -(-block.sequence // 32) * 32
        rows = [*_qkv(e, query, key, value), out, *_window_mask(block, query - key, query - value)]
        return [*rows, Saved("core_attention", "log-sum-exp", 0, Split.TENSOR, fixed=4 * heads * block.micro_batch * padded + 16)]
    if kernel == "math":
        per_score = 4 + (5 if block.dropout > 0 else 0)
        return [
            Saved("qkv", "q, k, v expanded in fp32", 12 * query, Split.TENSOR),
            out,
            Saved("core_attention", "softmax", per_score * heads * block.sequence, Split.TENSOR),
        ]
    return [
        Saved("qkv", "q, k, v, keys and values expanded to all heads", 3 * e * query, Split.TENSOR),
        out,
        Saved("core_attention", "scores and softmax", _eager_score_bytes(block) * heads * block.sequence, Split.TENSOR),
    ]


def _qkv(e: int, query: int, key: int, value: int) -> list[Saved]:
    return [
        Saved("qkv", "q", e * query, Split.TENSOR),
        Saved("qkv", "k, v", e * (key + value), Split.KV),
    ]


def _window_mask(block: Block, missing_key: int, missing_value: int) -> list[Saved]:
    """A sliding window no longer than the sequence makes SDPA (not the FlashAttention package) repeat k, v and keep a mask."""
    if block.attention is not Attention.SDPA or block.kind.window is None:
        return []
    e = block.numerics.compute
    masked = (block.sequence >= block.kind.window).astype("int64")
    return [
        Saved("qkv", "k, v repeated", masked * e * (missing_key + missing_value), Split.TENSOR),
        Saved("core_attention", "additive mask", masked * e * block.sequence, Split.WHOLE),
    ]


def _eager_score_bytes(block: Block) -> int:
    """Bytes per score: softmax in the stream's dtype or in fp32 with a 16-bit copy; dropout adds a mask and a copy."""
    numerics, family = block.numerics, block.architecture.family
    dropped = block.dropout > 0
    cap = numerics.compute if block.architecture.attention_softcap else 0
    if numerics.compute == 4:
        return 4 + (5 if dropped else 0) + cap
    if numerics.fused or (family in SOFTMAX_IN_STREAM_DTYPE and not numerics.autocast):
        return 2 + (3 if dropped else 0) + cap
    return 6 + (1 if dropped else 0) + cap


def latent_rows(block: Block) -> list[Saved]:
    """Multi-head latent attention: the compressed inputs, their norms, and full-width q, k, v."""
    architecture, numerics = block.architecture, block.numerics
    mla = architecture.mla
    assert mla is not None
    e, h, heads = numerics.compute, architecture.hidden_size, architecture.heads
    head = mla.qk_nope_head_dim + mla.qk_rope_head_dim
    norm_copy = numerics.residual if numerics.fused_norm else 4 + e
    rows = [Saved("attention_input", "input of the down projections", e * h, Split.GATHERED)]
    if mla.q_lora_rank:
        rows.append(Saved("mla_up_proj", "q latent and its norm", (norm_copy + e) * mla.q_lora_rank + 4, Split.SEQUENCE))
    latent = (norm_copy + e) * mla.kv_lora_rank + 4
    rows.append(Saved("mla_up_proj", "kv latent and its norm", latent, Split.SEQUENCE))
    # Kernels need equal widths: v is padded to the width of k.
    return rows + core_rows(block, heads * head, heads * mla.v_head_dim, heads * head, heads * head)


def mlp_rows(block: Block, width: int, module: str = "mlp") -> list[Saved]:
    """A dense MLP of `width`: its input, and what the activation keeps."""
    architecture, numerics = block.architecture, block.numerics
    e, h = numerics.compute, architecture.hidden_size
    copies = 2 if numerics.autocast and architecture.gated_mlp else 1
    rows = [Saved("mlp_input", "input of the MLP", copies * e * h, Split.GATHERED)]
    return [*rows, Saved(module, "MLP activations", _activation_bytes(block) * width, Split.TENSOR)]


def _activation_bytes(block: Block) -> int:
    """Bytes per MLP unit and token."""
    architecture, numerics = block.architecture, block.numerics
    e = numerics.compute
    if architecture.gated_mlp:
        return (3 if numerics.fused else 4) * e
    if architecture.activation == "gelu_new" and not numerics.fused_activation:
        return 16 if numerics.autocast else 5 * e
    return e if architecture.activation == "relu" else 2 * e


def mixture_rows(block: Block) -> list[Saved]:
    """Router, dispatch and experts; `routed` rows count tokens times experts per token."""
    architecture, numerics = block.architecture, block.numerics
    moe = architecture.moe
    assert moe is not None
    # Grouped matrix products are not autocast: experts run in the parameters' dtype.
    w = numerics.residual
    pieces = 3 if numerics.fused else 4
    rows = [
        Saved("mlp_input", "input of the mixture", numerics.compute * architecture.hidden_size, Split.GATHERED),
        Saved("router", "router", 4 * moe.experts + 40 * moe.top_k + 4, Split.SEQUENCE),
        Saved("moe", "dispatched and returned tokens", 2 * w * architecture.hidden_size, Split.WHOLE, routed=True),
        Saved("moe", "expert activations", pieces * w * moe.expert_ffn_size, Split.EXPERT, routed=True),
    ]
    if moe.shared_ffn_size:
        rows.append(Saved("shared_experts", "shared expert", _activation_bytes(block) * moe.shared_ffn_size, Split.TENSOR))
    return rows


def block_rows(block: Block) -> list[Saved]:
    """Every tensor one block saves for its backward."""
    architecture, numerics = block.architecture, block.numerics
    h = architecture.hidden_size
    norms = [norm_rows(block, h, "layernorm", f"norm {index + 1}") for index in range(architecture.norms_per_layer)]
    attention = attention_rows(block)
    if architecture.encoder is not None and not block.kind.encoder:
        cross = [row for row in attention_rows(block) if row.name != "input of q, k, v"]
        attention += [norm_rows(block, h, "layernorm", "cross norm"), *cross]
        attention.append(Saved("attention_input", "input of the cross attention", 2 * numerics.compute * h, Split.GATHERED))
    mlp = mixture_rows(block) if block.kind.mixture else mlp_rows(block, architecture.ffn_size)
    if architecture.parallel_block and architecture.norms_per_layer == 1:
        mlp = [row for row in mlp if row.module != "mlp_input" or numerics.autocast]
    masks = [Saved("dropout", "residual dropout masks", 2 * h, Split.SEQUENCE)] if block.dropout > 0 else []
    return norms + attention + mlp + masks
