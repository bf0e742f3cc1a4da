"""The output head and the loss: often the largest item with a 128k vocabulary, alive when every block still is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.implementation import HUGGING_FACE_ENGINES, runs_foundry
from accounting.ledger import BACKWARD_LOSS, FORWARD_LOSS, ByMoment, Line
from accounting.memory.context import Context
from accounting.memory.numerics import Numerics
from accounting.memory.saved import GEMMA_FAMILIES
from accounting.model.architecture import Architecture
from accounting.scenario import Recipe
from accounting.units import Bytes, ceil_div
from accounting.vocabulary import Bucket, Engine


@dataclass(frozen=True, slots=True)
class LossBytes:
    """Bytes per logit: alive after the forward, at the forward's and the backward's peak. 16-bit and fp32 compute."""

    live: tuple[float, float]
    forward: tuple[float, float]
    backward: tuple[float, float]
    source: str


LOSS: dict[tuple[str, str], LossBytes] = {
    ("standard", "torch"): LossBytes((4, 4), (10, 8), (12, 12), "only the loss is kept, measured (activations §3)"),
    ("standard", "outputs"): LossBytes(
        (6, 8), (10, 8), (14, 16), "the loop keeps `outputs`, measured (activations §3)"
    ),
    ("standard", "accelerate"): LossBytes((8, 8), (10, 8), (16, 16), "outputs kept in fp32, measured (activations §3)"),
    ("standard", "foundry"): LossBytes((2, 4), (2, 4), (4, 8), "FlashAttention's cross entropy, in place"),
    ("standard", "litgpt"): LossBytes(
        (8, 8), (10, 8), (8, 8), "Fabric answers in fp32, the last step's answer is still held: litgpt finetune/lora.py"
    ),
    ("standard", "modules"): LossBytes(
        (4, 4), (10, 8), (6, 8), "nanotron's _ShardedCrossEntropy: one copy more, then in place"
    ),
    ("standard", "megatron"): LossBytes((4, 4), (6, 8), (6, 8), "Megatron-Core vocab-parallel cross entropy, in place"),
    ("standard", "compiled"): LossBytes((2, 4), (2, 4), (4, 8), "torchtitan's compiled loss: the upcast is fused"),
    ("compiled", "torch"): LossBytes(
        (2, 4), (2, 4), (2.25, 4.5), "8 chunks of 16-bit logits, compiled: the upcast is fused, a chunk's gradient"
    ),
    ("chunked", "torch"): LossBytes(
        (4, 4), (6.5, 8.5), (5, 8), "8 chunks, upcast per chunk, measured (activations §3)"
    ),
    ("chunked", "megatron"): LossBytes((4, 4), (6.5, 8.5), (5, 8), "as torch"),
    ("fused", "torch"): LossBytes((0, 0), (0, 0), (0, 0), "Liger fused linear cross entropy: chunks only"),
    ("fused", "megatron"): LossBytes(
        (2, 4), (2, 4), (4, 8), "Transformer Engine fused cross entropy: gradient in place"
    ),
}
FULL_WIDTH = 4
"""Bytes of an fp32 activation."""
LOSS_PARALLEL_BYTES_PER_LOGIT = 4
"""One fp32 copy more at both peaks where torch's loss_parallel splits the logits: it sums and scales out of place."""
FUSED_CHUNK_BYTES_PER_LOGIT = 10
"""A chunk of logits in 16 bit, its fp32 copy and gradient."""


def logits(context: Context) -> ByMoment:
    """Logits, their upcast, log-softmax and gradient on the last stage.

    bytes = tokens · vocabulary / (tp where the head is vocabulary-parallel) · bytes per logit of the loss kernel

    torch's loss_parallel adds an fp32 copy. Alive: end of the forward (live + transient), start of the backward.
    Source: measured transients; Megatron-Core; torch.distributed.tensor.parallel.loss.
    """
    architecture = context.recipe.model.architecture
    if architecture is None:
        return {}
    count = logit_count(context)
    law = loss_law(context.recipe, context.numerics)
    column = int(context.numerics.compute == FULL_WIDTH)
    cap = (
        context.numerics.compute
        if architecture.final_softcap or architecture.family in GEMMA_FAMILIES - {"gemma"}
        else 0
    )
    fused = _fused_chunks(context, architecture.hidden_size, architecture.vocab_size) if law.live[column] == 0 else 0
    last = context.partition.is_last & context.partition.active
    fused = fused + count * LOSS_PARALLEL_BYTES_PER_LOGIT * _loss_parallel(context)
    forward = (_scaled(count, law.forward[column] + cap) + fused) * last
    backward = (_scaled(count, law.backward[column] + cap) + fused) * last
    return {FORWARD_LOSS: forward, BACKWARD_LOSS: backward}


def _loss_parallel(context: Context) -> NDArray[np.bool_]:
    """Where torch's own split loss runs: FSDP2's with tensor parallelism, neither compiled nor fused. [(N, 1)]"""
    recipe = context.recipe
    plain = recipe.options.loss == "standard" and not recipe.options.compile
    return (context.layout.tp > 1) & (recipe.engine is Engine.FSDP2 and plain)


def loss_law(recipe: Recipe, numerics: Numerics) -> LossBytes:
    """The row of `LOSS` for a recipe: its loss kernel, and who keeps the logits."""
    kind, compiled = recipe.options.loss, recipe.options.compile
    if recipe.engine in (Engine.MEGATRON, Engine.IDEAL):
        return LOSS[kind, "modules" if kind == "standard" and numerics.modules else "megatron"]
    if kind == "chunked" and compiled:
        return LOSS["compiled", "torch"]
    if numerics.litgpt:
        return LOSS[kind, "litgpt"]
    if kind == "standard" and runs_foundry(recipe):
        return LOSS[kind, "foundry"]
    if kind == "standard" and recipe.engine in HUGGING_FACE_ENGINES and not compiled:
        return LOSS[kind, "accelerate" if numerics.autocast else "outputs"]
    if kind == "standard" and compiled and recipe.engine is Engine.FSDP2:
        return LOSS[kind, "compiled"]
    return LOSS[kind, "torch"]


def head_input(context: Context) -> ByMoment:
    """The head's input and the shifted labels.

    bytes = tokens · (bytes of an activation · hidden + 8) on the last stage; autocast adds its 16-bit head weight

    Alive: forward and the start of the backward. Source: measured (activations §3).
    """
    architecture = context.recipe.model.architecture
    if architecture is None:
        return {}
    partition, numerics = context.partition, context.numerics
    last = partition.is_last & partition.active
    kept = partition.tokens * (numerics.compute * architecture.hidden_size + 8)
    copy = 2 * context.head_elements if numerics.autocast else context.zero
    held = (kept * (context.head_elements > 0) + copy) * last
    return dict.fromkeys((FORWARD_LOSS, BACKWARD_LOSS), held)


def logit_count(context: Context) -> Bytes:
    """Logits of one micro-batch on a rank; torch's plan has them whole only without loss parallelism. [(N, 1)]"""
    architecture = context.recipe.model.architecture
    return context.partition.tokens * ceil_div(_logits_per_token(architecture), context.layout.tp)


def _logits_per_token(architecture: Architecture | None) -> int:
    """The vocabulary, a classifier's labels, or none of a bare backbone."""
    if architecture is None or architecture.head == "none":
        return 0
    return architecture.extra.get("labels", 0) if architecture.head == "classification" else architecture.vocab_size


def _scaled(count: Bytes, per_logit: float) -> Bytes:
    """`per_logit` is a multiple of 1/4: exact in integers."""
    return ceil_div(count * int(4 * per_logit), 4)


def _fused_chunks(context: Context, hidden: int, vocabulary: int) -> Bytes:
    """Gradients of head weight and input, made in the forward, and a chunk of logits; chunks of about T·h/V tokens."""
    size = context.numerics.compute
    chunk = ceil_div(context.partition.tokens, max(-(-vocabulary // hidden), 1))
    weight = np.where(context.head_elements > 0, ceil_div(hidden * vocabulary * size, context.layout.tp), 0)
    chunk_bytes = chunk * ceil_div(vocabulary, context.layout.tp) * FUSED_CHUNK_BYTES_PER_LOGIT
    return weight + context.partition.tokens * hidden * size + chunk_bytes


LOSS_LINES: tuple[Line, ...] = (
    Line("loss.logits", Bucket.LOGITS_AND_LOSS, logits),
    Line("loss.head_input", Bucket.LOGITS_AND_LOSS, head_input),
)
