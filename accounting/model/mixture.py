"""Mixture of experts and latent attention, read from a config.json by a family's row of keys."""

from __future__ import annotations

from typing import Any, Final

from accounting.model.architecture import LatentAttention, MixtureOfExperts
from accounting.model.family import Draft, MixtureKeys, Source
from accounting.model.reader import LIMITS, MISSING, Reader

_LATENT: Final = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


def read_mixture(reader: Reader, row: MixtureKeys, draft: Draft) -> None:
    """Fill `draft["moe"]`; leaves it out where a fault was found."""

    def count(source: Source | None, absent: Any, low: int = 0) -> Any:
        if source is None:
            return absent
        default = MISSING if source.default is None else source.default
        return reader.integer(source.keys, default, low=low, high=LIMITS["other"])

    width = count(row.expert_ffn_size, MISSING, low=1)
    shared = count(row.shared_experts, row.fixed_shared_experts)
    experts = count(row.experts, MISSING, low=1)
    top_k = count(row.top_k, MISSING, low=1)
    shared_width = count(row.shared_ffn_size, MISSING)
    if shared_width is MISSING and row.shared_ffn_size is None and MISSING not in (shared, width):
        shared_width = shared * width
    step = count(row.layer_step, 1, low=1)
    first_dense = count(row.first_dense_layers, 0)
    dense = draft.pop("dense_layers", ())
    if draft.pop("explicit_mixture", False):
        step = 1
    if row.dense_list is not None:
        listed = reader.items(row.dense_list, lambda item: type(item) is int and 0 <= item < 2**31, "layer numbers")
        dense = tuple(sorted({*dense, *(listed or ())}))
    if isinstance(experts, int) and isinstance(top_k, int) and top_k > experts:
        reader.fault(row.top_k.keys[0], "out_of_range", f"{top_k} experts a token cannot come out of {experts} experts")
    if MISSING in (width, shared, experts, top_k, shared_width, step, first_dense):
        return
    draft["moe"] = MixtureOfExperts(
        experts=experts,
        top_k=top_k,
        expert_ffn_size=width,
        shared_experts=shared,
        shared_ffn_size=shared_width,
        first_dense_layers=first_dense,
        layer_step=step,
        router_bias=row.router_bias,
        expert_bias=row.expert_bias,
        shared_gate=row.shared_gate,
        dense_layers=dense,
    )


def read_latent_attention(reader: Reader, draft: Draft) -> None:
    """Fill `draft["mla"]`, and head_dim with the width of a query head (the part without and with rotation)."""
    read = {key: reader.integer((key,), high=LIMITS["other"]) for key in _LATENT}
    rank = reader.integer(("q_lora_rank",), 1536, high=LIMITS["other"], nullable=True)
    if MISSING in read.values() or rank is MISSING:
        return
    draft["mla"] = LatentAttention(q_lora_rank=rank, **read)
    draft["head_dim"] = read["qk_nope_head_dim"] + read["qk_rope_head_dim"]
