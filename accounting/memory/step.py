"""What the optimizer step and the framework hold beside states: foreach copies, cast gradients, workspaces."""

from __future__ import annotations

import numpy as np

from accounting.facts.dtypes import itemsize
from accounting.facts.frameworks import CUBLAS_WORKSPACE_BYTES, CUBLAS_WORKSPACE_FROM_CAPABILITY
from accounting.ledger import (
    BACKWARD_LOSS,
    FIRST_BLOCK,
    FORWARD_LOSS,
    LAST_BLOCK,
    NEXT_BLOCK,
    STEP,
    ByMoment,
    Line,
    always,
)
from accounting.memory.context import Context
from accounting.memory.implementations import vocabulary_elements
from accounting.memory.loss import logit_count
from accounting.optimizer_laws import step_temporary_bytes
from accounting.units import ceil_div
from accounting.vocabulary import Bucket, Engine, Place

FUSED_STEP_ENGINES = (Engine.DEEPSPEED, Engine.MEGATRON, Engine.IDEAL)
"""These bring their own fused kernel (FusedAdam); torch's optimizers default to foreach on CUDA."""


def optimizer_temporary(context: Context) -> ByMoment:
    """What the optimizer's implementation allocates during a step.

    foreach: copies of all stepped tensors; single-tensor: of the largest; fused: none

    Alive: step. Source: the registry row; pytorch#97712.
    """
    recipe = context.recipe
    if recipe.offload.optimizer is not Place.NONE or recipe.optimizer.frees_gradients:
        return {}
    if recipe.engine in FUSED_STEP_ENGINES or recipe.options.optimizer_in_backward:
        return {}
    if recipe.options.compile and recipe.options.foreach is None:
        # Trainers that compile (torchtitan, torchtune) ask for the fused optimizer by default.
        return {}
    given = {"foreach": recipe.options.foreach, "fused": recipe.options.fused}
    options = dict(recipe.optimizer_options) | {name: value for name, value in given.items() if value is not None}
    stepped = itemsize(recipe.precision.stepped)
    views = [(view, piece.copies) for view, piece in context.optimizer_views]
    return {STEP: step_temporary_bytes(recipe.optimizer, options, views, stepped) + context.zero}


def cast_gradients(context: Context) -> ByMoment:
    """fp32 copies of 16-bit gradients that a master-weight step makes.

    DeepSpeed stages 1, 2: 6 bytes per element of the partition (flattened 16-bit and fp32); stage 0: 4 per parameter;
    stage 3: 4 per element of a sub-group. Megatron: 4 per element of the shard where gradients are 16-bit; stepped by
    DeepSpeed (Megatron-DeepSpeed): 6.

    Alive: step. Source: DeepSpeed stage_1_and_2, stage3, fused_optimizer; Megatron-LM#6984.
    """
    recipe = context.recipe
    precision = recipe.precision
    if precision.master_weights != "fp32" or recipe.offload.optimizer is not Place.NONE:
        return {}
    if precision.gradients is None or itemsize(precision.gradients) != 2:
        return {}
    elements = context.trainable_elements
    shard = ceil_div(elements, context.partition.shard_group)
    if context.numerics.megatron_deepspeed:
        return {STEP: 6 * shard}
    if recipe.engine is Engine.MEGATRON:
        return {STEP: 4 * (shard if recipe.zero_stage else elements)}
    if recipe.engine is not Engine.DEEPSPEED:
        return {}
    if recipe.zero_stage == 0:
        return {STEP: 4 * elements}
    if recipe.zero_stage == 3:
        group = recipe.options.sub_group_size or 1_000_000_000
        return {STEP: 4 * np.minimum(shard, group)}
    return {STEP: 6 * shard}


def dequantised_weight(context: Context) -> ByMoment:
    """The one quantised matrix that is being multiplied, in 16 bit.

    bytes = 2 · elements of the largest quantised matrix; LitGPT stores fp16 blocks and casts them: twice that, for a
    quantised head what of it goes beyond the logits that are not there yet

    Alive: the block moments, with such a head the loss. Source: bitsandbytes Linear4bit forward; Fabric's
    BitsandbytesPrecision.
    """
    each = 4 if context.numerics.litgpt else 2
    largest = context.zero
    for item in context.frozen:
        if context.is_quantised(item) and item.tensor.role != "head":
            largest = np.maximum(largest, np.where(item.copies > 0, each * item.elements, 0))
    inside = dict.fromkeys((LAST_BLOCK, NEXT_BLOCK, FIRST_BLOCK), largest)
    if not context.numerics.litgpt or not context.base_is_quantised:
        return inside
    head = each * vocabulary_elements(context)
    count = logit_count(context)
    return inside | {
        FORWARD_LOSS: np.maximum(head - 4 * count, 0),
        BACKWARD_LOSS: np.maximum(head - 2 * count, 0),
    }


def workspace(context: Context) -> ByMoment:
    """cuBLAS workspace inside the allocator.

    bytes = 32 MiB from compute capability 9.0 on, 8,519,680 before; none off CUDA

    Alive: always. Source: pytorch#120925.
    """
    if context.recipe.engine is Engine.IDEAL or not context.has_activations:
        return {}
    sizes = np.array(
        [_workspace_of(row.compute_capability) for row in context.scenario.machine.accelerators], dtype=np.int64
    )
    return always(sizes[context.scenario.machine.accelerator_index] + context.zero)


def _workspace_of(capability: str | None) -> int:
    try:
        version = float(capability or "")
    except ValueError:
        return 0
    return CUBLAS_WORKSPACE_BYTES["hopper" if version >= CUBLAS_WORKSPACE_FROM_CAPABILITY else "older"]


STEP_LINES: tuple[Line, ...] = (
    Line("temporaries.optimizer", Bucket.TEMPORARIES, optimizer_temporary),
    Line("temporaries.cast_gradients", Bucket.TEMPORARIES, cast_gradients),
    Line("temporaries.dequantised_weight", Bucket.TEMPORARIES, dequantised_weight),
    Line("framework.workspace", Bucket.FRAMEWORK, workspace),
)
