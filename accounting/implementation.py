"""Whose code runs a request, where one engine name stands for several code bases."""

from __future__ import annotations

from accounting.scenario import Recipe
from accounting.vocabulary import Engine

HUGGING_FACE_ENGINES = (Engine.DDP, Engine.FSDP1, Engine.DEEPSPEED)
"""Engines whose usual loop runs Hugging Face modules and keeps the model's outputs until the step is done."""


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
