"""How the Hugging Face modules of a family are written where that changes what autograd keeps: one row a family.

Source of every row: saved tensors of the real classes of transformers 5.24 on torch 2.13, hooks deduplicated by storage
(tests/accounting/memory/data/saved_tensors.csv); engines with fused kernels have none of these habits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

ByFormat = tuple[int, int, int]
"""Bytes in 16-bit compute, under autocast to 16 bit over fp32 parameters, in fp32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """What choosing the experts keeps, beyond the router's 16-bit input that it shares with the experts."""

    input_copy: ByFormat = (0, 0, 0)
    """Bytes per hidden unit and token: a copy of the input in fp32, or autocast's own."""
    per_expert: ByFormat = (4, 4, 4)
    """Bytes per expert and token: softmax or sigmoid of the logits, masks."""
    per_choice: ByFormat = (40, 40, 40)
    """Bytes per chosen expert and token: its index, its weight before and after normalisation, permutations."""
    constant: int = 4
    """Bytes per token: the sum the weights are divided by, groups of experts."""
    fused_shared_input: bool = True
    """The shared experts' input is the mixture's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Defaults are those of Llama's module."""

    norm_keeps_fp32: bool = False
    """The RMSNorm multiplies by its weight in fp32, so the normalised value is kept in fp32."""
    norm_weight_from_one: bool = False
    """The weight is stored less one: 1 + weight is made at each call and kept, 4 bytes a unit."""
    softmax_in_stream: bool = False
    """Eager softmax in the stream's dtype; elsewhere in fp32 with a 16-bit copy."""
    joint_projection: bool = False
    """One matrix makes q, k and v: autocast makes one copy of its input."""
    value_is_view: bool = False
    """v is a view of the joint projection's output, q and k are rotated copies: the whole of it is kept beside them."""
    rotary_joins: bool = False
    """The rotary embedding ends in a concatenation: the flash kernel then answers head by head and that is copied."""
    joint_gate: bool = False
    """One matrix makes gate and up: autocast makes one copy of its input."""
    always_masked: bool = False
    """SDPA is always given a mask: no flash kernel."""
    grouped_kernel: bool = True
    """Says so to SDPA that query heads share keys; else they are expanded first, or by the math path where there is
    one head of keys."""
    score_bias: bool = False
    """A bias per head and score is the mask of the self-attention, kept by each block."""
    activation_upcast: bool = False
    """The second matrix gets its input cast to its own dtype: under autocast one copy more."""
    residual_dropouts: int = 0
    """Dropout masks of the hidden size that a block keeps beside the scores'; an encoder-decoder's cross attention has
    one more."""
    mlp_dropout: bool = False
    """Dropout between the two matrices: a mask, and in a plain MLP the dropped copy."""
    score_dropout: bool = True
    """Drops scores where the config says so."""
    mlp_pieces: int = 4
    """Tensors per expert unit that a gated expert keeps: gate, up, the activation and the product."""
    router: Router = Router()


_STREAM: Final = Habits(softmax_in_stream=True, residual_dropouts=2)
_JOINT_STREAM: Final = Habits(softmax_in_stream=True, joint_projection=True, residual_dropouts=2)
_TWO_MASKS: Final = Habits(residual_dropouts=2)
_GEMMA: Final = Habits(norm_keeps_fp32=True, norm_weight_from_one=True)
_FP32_NORM: Final = Habits(norm_keeps_fp32=True)
_LIGHT_ROUTER: Final = Habits(router=Router(per_choice=(38, 38, 40)))
"""The weights of the chosen experts go back to the logits' dtype."""

_ROWS: Final[Mapping[str, Habits]] = {
    "gpt2": _JOINT_STREAM,
    "gpt_bigcode": _JOINT_STREAM,
    "starcoder": _JOINT_STREAM,
    "bert": _STREAM,
    "roberta": _STREAM,
    "gemma": _GEMMA,
    "gemma2": _GEMMA,
    "gemma3": _GEMMA,
    "gemma3_text": _GEMMA,
    "olmo2": _FP32_NORM,
    "olmo3": _FP32_NORM,
    "t5": Habits(
        softmax_in_stream=True,
        norm_keeps_fp32=True,
        score_bias=True,
        activation_upcast=True,
        residual_dropouts=2,
        mlp_dropout=True,
    ),
    "opt": _TWO_MASKS,
    "starcoder2": _TWO_MASKS,
    "gptj": _TWO_MASKS,
    "gpt_neo": _TWO_MASKS,
    "gpt_neox": Habits(joint_projection=True, value_is_view=True, rotary_joins=True, residual_dropouts=2),
    "phi": Habits(rotary_joins=True, residual_dropouts=2),
    "phi3": Habits(joint_projection=True, value_is_view=True, rotary_joins=True, joint_gate=True, residual_dropouts=2),
    "bloom": Habits(joint_projection=True, residual_dropouts=2),
    "mpt": Habits(joint_projection=True, residual_dropouts=2),
    "chatglm": Habits(joint_projection=True, joint_gate=True),
    "glm": Habits(joint_projection=True, joint_gate=True),
    "falcon": Habits(
        softmax_in_stream=True,
        joint_projection=True,
        always_masked=True,
        grouped_kernel=False,
        residual_dropouts=1,
        score_dropout=False,
    ),
    "qwen3_moe": _LIGHT_ROUTER,
    "deepseek_v2": Habits(router=Router(input_copy=(4, 2, 0), per_choice=(36, 36, 36), constant=0)),
    "deepseek_v3": Habits(
        # 8 groups of which 4 are chosen by the sum of their best two, as in every published model.
        router=Router(input_copy=(4, 2, 0), per_expert=(5, 3, 5), per_choice=(40, 36, 40), constant=164),
    ),
    "gpt_oss": Habits(
        softmax_in_stream=True,
        norm_keeps_fp32=True,
        rotary_joins=True,
        mlp_pieces=7,
        router=Router(per_expert=(0, 0, 0), per_choice=(44, 44, 48), constant=0),
    ),
}
HABITS: Final[Mapping[str, Habits]] = MappingProxyType(dict(_ROWS))
_LLAMA: Final = Habits()


FUSED: Final = Habits(residual_dropouts=2)
"""Engines with kernels of their own, whatever the family."""


def habits_of(family: str) -> Habits:
    """The habits of a family's module; Llama's where no row says otherwise."""
    return HABITS.get(family, _LLAMA)
