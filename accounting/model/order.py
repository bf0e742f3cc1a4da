"""The order in which a class registers the parameters of a block: what flat buffers are laid out by.

Source: `named_parameters()` of transformers 5.24.0, one model of every family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from accounting.model.tensors import Tensor

_GPT2: Final = ("ln_1", "attn", "ln_2", "mlp")
_BERT: Final = ("attention", "intermediate", "output")
_KEYS_FIRST: Final = ("self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj", "self_attn.out_proj")
_LINEAR: Final = ("linear_attn.dt_bias", "linear_attn.A_log", "linear_attn.conv1d")
_QWEN35: Final = (*_LINEAR, "linear_attn.norm", "linear_attn.out_proj", "linear_attn")
STORAGE_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gpt_neo": (
        "ln_1",
        *(f"attn.attention.{name}_proj" for name in ("k", "v", "q", "out")),
        "ln_2",
        "mlp",
    ),
    "gptj": ("ln_1", *(f"attn.{name}_proj" for name in ("k", "v", "q", "out")), "mlp"),
    "gpt_neox": ("input_layernorm", "post_attention_layernorm", "attention", "mlp"),
    "opt": (*_KEYS_FIRST, "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm"),
    "bloom": ("input_layernorm", "self_attention", "post_attention_layernorm", "mlp"),
    "mpt": ("norm_1", "attn", "norm_2", "ffn"),
    "phi3": ("self_attn.o_proj", "self_attn.qkv_proj", "mlp"),
    "bert": _BERT,
    "roberta": _BERT,
    "vit": ("attention", "layernorm_before", "layernorm_after", "intermediate", "output"),
    "qwen3_moe": ("self_attn", "mlp.experts", "mlp.gate"),
    "llama4_text": ("self_attn", "feed_forward.experts", "feed_forward.router"),
    "gpt_oss": ("self_attn.sinks",),
    "qwen3_next": _LINEAR,
    "qwen3_5_text": _QWEN35,
    "qwen3_5_moe_text": _QWEN35,
}
"""Module paths by family, first to last; what no path covers keeps its place after them."""


def in_storage_order(family: str, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The tensors of a block as the family's class registers them; a family without a row is in order already."""
    paths = STORAGE_ORDER.get(family, ())
    if not paths:
        return tuple(tensors)
    return tuple(sorted(tensors, key=lambda tensor: _place(tensor.name, paths)))


def _place(name: str, paths: tuple[str, ...]) -> int:
    for place, path in enumerate(paths):
        if name.startswith(f"{path}."):
            return place
    # gpt_oss' sinks, dt_bias and A_log are parameters of the module itself.
    return paths.index(name) if name in paths else len(paths)
