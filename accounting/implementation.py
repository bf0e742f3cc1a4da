"""Whose code runs a request, where one engine name stands for several code bases."""

from __future__ import annotations

from accounting.scenario import Recipe
from accounting.vocabulary import Engine


def runs_modules(recipe: Recipe) -> bool:
    """True where a Megatron-style request is priced as torch modules instead of Megatron-Core's fused kernels.

    Both split a model alike and share the engine's name. A gated RMSNorm decoder with full fp32 gradients whose request
    names no fused kernel (fused loss, fused norm, compile) is priced the dearer way: unfused SwiGLU, 16-bit gradients
    beside the fp32 ones, collectives that hold their buffers. Source: nanotron (llama, tensor_parallel, gradient_accumulator).
    """
    architecture, options = recipe.model.architecture, recipe.options
    if recipe.engine is not Engine.MEGATRON or architecture is None:
        return False
    plain = options.loss == "standard" and options.fused_norm is None and not options.compile
    gated = architecture.gated_mlp and architecture.norm == "rmsnorm" and architecture.moe is None and architecture.mla is None
    separate = recipe.precision.gradients == "fp32" and recipe.precision.parameters in ("bf16", "fp16")
    return plain and gated and separate and recipe.zero_stage < 2 and recipe.adapter is None
