"""A model's shape as arguments of Megatron-LM's pretrain_gpt.py. Source: its arguments.py in Megatron-Core 0.14.0."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from accounting.model import Architecture
from planner.export.base import NotExportable

RELEASE = "core_v0.14.0"
Arguments = dict[str, str | int | bool]
UNSAID: tuple[tuple[str, Callable[[Architecture], bool]], ...] = (
    ("linear attention", lambda model: model.linear_attention is not None),
    ("an encoder beside it", lambda model: model.encoder is not None),
    ("attention to both sides", lambda model: not model.causal),
    ("no language head", lambda model: model.head != "lm"),
    ("capped logits", lambda model: model.attention_softcap or model.final_softcap),
    ("attention sinks", lambda model: model.attention_sinks),
    ("an attention gate", lambda model: model.attention_gate),
    ("attention and MLP side by side", lambda model: model.parallel_block),
    ("a norm on the embeddings", lambda model: model.embedding_norm),
    ("other than two norms a block", lambda model: model.norms_per_layer != 2),  # noqa: PLR2004 - the word says it
    ("q and k norms wider than a head", lambda model: model.qk_norm and model.qk_norm_width != "head"),
    ("a gated MLP without silu", lambda model: model.gated_mlp and model.activation != "silu"),
)
"""What a decoder may have that no argument of the release builds."""


def model(architecture: Architecture, sequence_length: int) -> Arguments:
    """The shape of the model. Raises NotExportable with what of it pretrain_gpt.py cannot build."""
    unsaid = [words for words, is_so in UNSAID if is_so(architecture)]
    window = architecture.sliding_window
    if window is not None and window < sequence_length:
        unsaid.append(f"a window of {window} in a sequence of {sequence_length}")
    if unsaid:
        raise NotExportable(
            f"pretrain_gpt.py of {RELEASE} builds no decoder with {', '.join(unsaid)}; the nearest is the same option "
            "of fsdp2, whose script loads the model itself"
        )
    found: Arguments = {
        "use-mcore-models": True,
        "num-layers": architecture.layers,
        "hidden-size": architecture.hidden_size,
        "ffn-hidden-size": architecture.ffn_size,
        "num-attention-heads": architecture.heads,
        "swiglu": architecture.gated_mlp,
        "squared-relu": architecture.activation == "relu2" and not architecture.gated_mlp,
        "normalization": "RMSNorm" if architecture.norm == "rmsnorm" else "LayerNorm",
        "position-embedding-type": "learned_absolute" if architecture.learned_positions else "rope",
        "untie-embeddings-and-output-weights": not architecture.tied_embeddings,
        "disable-bias-linear": not architecture.mlp_bias,
        "add-qkv-bias": architecture.attention_bias and not architecture.mlp_bias,
        "vocab-size": architecture.vocab_size,
    }
    return found | _attention(architecture) | _mixture(architecture)


def _attention(architecture: Architecture) -> Arguments:
    """Heads: plain, grouped, or latent (DeepSeek-V2), whose compressed vectors have norms of their own."""
    latent = architecture.mla
    if latent is not None:
        found: Arguments = {
            "multi-latent-attention": True,
            "kv-lora-rank": latent.kv_lora_rank,
            "qk-head-dim": latent.qk_nope_head_dim,
            "qk-pos-emb-head-dim": latent.qk_rope_head_dim,
            "v-head-dim": latent.v_head_dim,
            "qk-layernorm": True,
        }
        return found if latent.q_lora_rank is None else found | {"q-lora-rank": latent.q_lora_rank}
    found = {"kv-channels": architecture.head_dim, "qk-layernorm": architecture.qk_norm}
    if architecture.kv_heads != architecture.heads:
        found |= {"group-query-attention": True, "num-query-groups": architecture.kv_heads}
    return found


def _mixture(architecture: Architecture) -> Arguments:
    """Experts, and which blocks have them."""
    moe = architecture.moe
    if moe is None:
        return {}
    found: Arguments = {
        "num-experts": moe.experts,
        "moe-router-topk": moe.top_k,
        "moe-ffn-hidden-size": moe.expert_ffn_size,
        "moe-grouped-gemm": True,
        "moe-token-dispatcher-type": "alltoall",
    }
    if moe.shared_ffn_size:
        found["moe-shared-expert-intermediate-size"] = moe.shared_ffn_size
    pattern = [int(moe.is_mixture(layer)) for layer in range(architecture.layers)]
    if not all(pattern):
        runs = [f"[{kind}]*{len(list(layers))}" for kind, layers in groupby(pattern)]
        found["moe-layer-freq"] = f"({'+'.join(runs)})"
    return found
