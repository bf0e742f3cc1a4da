"""Whose code runs a request, where one engine name stands for several code bases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accounting.facts.calibration import names_nvidia, nvidia_megatron
from accounting.facts.dtypes import itemsize
from accounting.scenario import Recipe
from accounting.vocabulary import Attention, Engine, RecomputeMode

HUGGING_FACE_ENGINES = (Engine.DDP, Engine.FSDP1, Engine.DEEPSPEED)
"""Engines whose usual loop runs Hugging Face modules and keeps the model's outputs until the step is done."""

HALF_WIDTH = 2
"""Bytes of a 16-bit number."""


def runs_modules(recipe: Recipe) -> bool:
    """True where a Megatron-style request is priced as torch modules instead of Megatron-Core's fused kernels.

    Both split a model alike and share the engine's name. A gated RMSNorm decoder with full fp32 gradients whose request
    names no fused kernel (fused loss, fused norm, compile) is priced the dearer way: unfused SwiGLU, 16-bit gradients
    beside the fp32 ones, collectives that hold their buffers. Source: nanotron (llama, tensor_parallel,
    gradient_accumulator).
    """
    architecture, options = recipe.model.architecture, recipe.options
    if recipe.engine is not Engine.MEGATRON or architecture is None:
        return False
    plain = options.loss == "standard" and options.fused_norm is None and not options.compile
    gated = (
        architecture.gated_mlp
        and architecture.norm == "rmsnorm"
        and architecture.moe is None
        and architecture.mla is None
    )
    separate = recipe.precision.gradients == "fp32" and recipe.precision.parameters in ("bf16", "fp16")
    return plain and gated and separate and recipe.zero_stage <= 1 and recipe.adapter is None


def runs_liger(recipe: Recipe) -> bool:
    """True where a Hugging Face model takes a fused loss: Liger patches norms and gated MLPs along with it.

    Source: liger_kernel apply_liger_kernel_to_llama (rms_norm, swiglu, fused_linear_cross_entropy on by default).
    """
    return recipe.options.loss == "fused" and recipe.engine in HUGGING_FACE_ENGINES


def runs_foundry(recipe: Recipe) -> bool:
    """True where FSDP1 runs a GPT whose trainer brings fused GELU and FlashAttention's in-place cross entropy.

    Source: llm-foundry (MPT: fused_crossentropy by default); FSDP1's other trainers run gated models.
    """
    architecture = recipe.model.architecture
    if recipe.engine is not Engine.FSDP1 or architecture is None or recipe.adapter is not None:
        return False
    return architecture.norm == "layernorm" and not architecture.gated_mlp


def runs_litgpt(recipe: Recipe) -> bool:
    """True where adapters train in pure 16 bit on whole weights, nothing recomputed: LitGPT's own modules and loss.

    Hugging Face trainers run adapters under autocast, torchtune compiles and chunks its loss. Source: litgpt lora.py,
    finetune/lora.py, utils.chunked_cross_entropy; bitsandbytes 0.42, the one it takes.
    """
    architecture, options, precision = recipe.model.architecture, recipe.options, recipe.precision
    if recipe.engine is not Engine.DDP or recipe.adapter is None or architecture is None:
        return False
    half = itemsize(precision.parameters) == itemsize(precision.activations) == HALF_WIDTH
    plain = options.loss == "standard" and not options.compile and recipe.attention is not Attention.EAGER
    dense = architecture.moe is None and architecture.mla is None and architecture.encoder is None
    return half and plain and dense and recipe.recompute.mode is RecomputeMode.NONE


def runs_torchtune(recipe: Recipe) -> bool:
    """True where pure 16 bit meets torch.compile and a chunked loss: torchtune's recipes.

    They wrap the embedding and the head as FSDP units of their own, and hold 4-bit weights as torchao's, whose block
    scales are always quantised once more. Source: torchtune recipes (custom_sharded_layers), torchao NF4Tensor.
    """
    options, precision = recipe.options, recipe.precision
    half = itemsize(precision.parameters) == itemsize(precision.activations) == HALF_WIDTH
    engine = recipe.engine in (Engine.DDP, Engine.FSDP2) and precision.master_weights is None
    return engine and half and options.compile and options.loss == "chunked"


def runs_megatron_deepspeed(recipe: Recipe) -> bool:
    """True where DeepSpeed's optimizers step a Megatron GPT: 16-bit gradients under ZeRO-1, or ALiBi (BLOOM).

    Megatron-Core's distributed optimizer keeps fp32 gradients in buckets of its own and knows no ALiBi. Source:
    Megatron-DeepSpeed; deepspeed stage_1_and_2, bf16_optimizer.
    """
    architecture, precision = recipe.model.architecture, recipe.precision
    if recipe.engine is not Engine.MEGATRON or recipe.zero_stage != 1 or architecture is None:
        return False
    sixteen = precision.parameters == precision.gradients == "fp16" and precision.master_weights == "fp32"
    return architecture.norm == "layernorm" and (sixteen or architecture.family == "bloom")


def adds_separate_gradients(recipe: Recipe) -> bool:
    """True where a Megatron-style engine adds whole 16-bit gradients to an fp32 buffer after each backward.

    Megatron-Core's kernels accumulate into the fp32 buffer (gradient_accumulation_fusion). Source: nanotron
    FP32GradientAccumulator; DeepSpeed BF16_Optimizer under Megatron-DeepSpeed.
    """
    architecture = recipe.model.architecture
    if recipe.engine is not Engine.MEGATRON or architecture is None or architecture.moe is not None:
        return False
    wider = recipe.precision.gradients == "fp32" and recipe.precision.parameters in ("bf16", "fp16")
    return wider and recipe.options.loss == "standard" and not recipe.options.compile and recipe.zero_stage <= 1


@dataclass(frozen=True, slots=True)
class Code:
    """A code base that a request can stand for."""

    name: str
    runs: Callable[[Recipe], bool]
    words: str
    """What is assumed with it, and what in a request names another."""


def _is_megatron(recipe: Recipe) -> bool:
    return recipe.engine is Engine.MEGATRON


def _is_torch(recipe: Recipe) -> bool:
    return recipe.engine is not Engine.IDEAL


CODES: tuple[Code, ...] = (
    Code(
        "nanotron",
        runs_modules,
        "plain torch modules, 16-bit gradients beside the fp32 ones, collectives that hold their buffers; "
        "options.loss=fused or options.fused_norm names Megatron-Core's kernels",
    ),
    Code(
        "Megatron-DeepSpeed",
        runs_megatron_deepspeed,
        "DeepSpeed's flat optimizer steps Megatron's model, its buffers beside what the backward left cached",
    ),
    Code(
        "Megatron-Core",
        _is_megatron,
        "fused norms, activations and vocabulary-parallel loss; sharded inputs are gathered again in the backward",
    ),
    Code("LLM Foundry", runs_foundry, "fused GELU, FlashAttention's in-place cross entropy"),
    Code(
        "LitGPT",
        runs_litgpt,
        "joint projections, dropout before each adapter, answers in fp32; precision bf16-mixed names Hugging Face's "
        "trainers",
    ),
    Code(
        "torchtune",
        runs_torchtune,
        "compiled blocks, embedding and head as FSDP units of their own, 4-bit weights of torchao",
    ),
    Code(
        "Hugging Face modules",
        _is_torch,
        "norms, rotary embeddings and activations as its classes write them; options.fused_norm, options.compile and "
        "options.loss name fused kernels",
    ),
)
"""First match wins. Liger is no code base of its own: it patches Hugging Face's modules."""


def code_of(recipe: Recipe) -> Code | None:
    """Whose code is priced; None for the ideal engine and for a model of which only tensors are known."""
    if recipe.model.architecture is None:
        return None
    return next((code for code in CODES if code.runs(recipe)), None)


def keeps_code(before: Recipe, after: Recipe) -> bool:
    """Whether two recipes are priced as one code base: a change between them is a change, not another framework."""
    same = code_of(before) is code_of(after)
    return same and adds_separate_gradients(before) is adds_separate_gradients(after)


_SPELLED = (
    "time as under NVIDIA's own Megatron, whose optimizer is spelled adam; options.fused_norm=false names the code "
    "bases that grew out of it (nanotron, Megatron-DeepSpeed, InternEvo)"
)
_OTHERWISE = (
    "time as under a code base that grew out of Megatron (nanotron, Megatron-DeepSpeed, InternEvo), as the optimizer "
    "is not spelled adam; options.fused_norm=true names NVIDIA's own"
)


def assumed(recipe: Recipe) -> list[str]:
    """The code bases that memory and time are those of, in words, for an answer's assumptions."""
    code = code_of(recipe)
    if code is None:
        return []
    rows = [f"memory as under {code.name}: {code.words}"]
    if runs_liger(recipe):
        rows.append("memory with Liger's kernels: norms and gated MLPs are patched along with the fused loss")
    if adds_separate_gradients(recipe) and not runs_modules(recipe):
        rows.append(
            "memory with 16-bit gradients added to the fp32 buffer after each backward; options.loss=fused names "
            "Megatron-Core's fused accumulation"
        )
    if recipe.engine is Engine.MEGATRON and names_nvidia(recipe) is None:
        rows.append(_SPELLED if nvidia_megatron(recipe) else _OTHERWISE)
    return rows
