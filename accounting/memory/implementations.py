"""Lines that only some code bases hold: nanotron's collectives, gradients beside a buffer, mixed flat parameters."""

from __future__ import annotations

import numpy as np

from accounting.facts.dtypes import itemsize, stored_bytes
from accounting.facts.frameworks import COLLECTIVES_IN_FLIGHT
from accounting.ledger import (
    BACKWARD_LOSS,
    BACKWARD_MOMENTS,
    FIRST_BLOCK,
    FORWARD_BLOCK,
    FORWARD_LOSS,
    FORWARD_MOMENTS,
    LAST_BLOCK,
    NEXT_BLOCK,
    REDUCTION,
    ByMoment,
    Line,
    always,
)
from accounting.memory.context import Context
from accounting.units import Bytes
from accounting.vocabulary import Bucket, Engine


def tensor_parallel_buffers(context: Context) -> ByMoment:
    """Full-sequence buffers of tensor parallelism out of torch collectives.

    bytes = (4 · tokens · hidden: two gather buffers kept for good) + without a pipeline 56 · tokens · hidden, at most
    8 · blocks: inputs of reduce-scatters whose release waits for the communication stream while the host runs ahead

    Alive: forward, backward, where tp > 1 with sequence parallelism. A pipeline's receives stop the host, so nothing
    piles up. Source: nanotron MemoryBuffer, _RowLinearAsyncCommunication; torch record_stream; depth measured.
    """
    architecture = context.recipe.model.architecture
    if architecture is None or not context.numerics.modules:
        return {}
    one = context.partition.tokens * context.numerics.compute * architecture.hidden_size
    waiting = np.minimum(COLLECTIVES_IN_FLIGHT, 4 * context.partition.layers) * (context.layout.pp == 1)
    held = np.where(context.layout.sequence_parallel & (context.layout.tp > 1), one * (2 + waiting), 0)
    return dict.fromkeys((FORWARD_BLOCK, FORWARD_LOSS, *BACKWARD_MOMENTS), held * context.partition.active)


def mixed_units(context: Context) -> ByMoment:
    """FSDP1: unsharded gradients of flat parameters that mix frozen weights and adapters.

    bytes = bytes of a gradient · all elements of the rank, frozen ones too, where micro-batches accumulate unreduced

    Alive: from the second micro-batch on. Source: torch FSDP1 flat parameters under no_sync; litgpt's LoRA recipes.
    """
    recipe = context.recipe
    if (
        recipe.engine is not Engine.FSDP1
        or recipe.adapter is None
        or any(context.is_quantised(item) for item in context.frozen)
    ):
        return {}
    size = itemsize(recipe.precision.gradients or recipe.precision.parameters)
    whole = context.partition.elements() * size * (context.layout.micro_batches > 1)
    return dict.fromkeys((*FORWARD_MOMENTS, *BACKWARD_MOMENTS), whole)


def separate_gradients(context: Context) -> ByMoment:
    """16-bit gradients of one micro-batch beside the fp32 accumulation buffer.

    bytes = 2 · elements on the rank; between micro-batches their place in the allocator stays cut up

    Alive: backward; with accumulation the next forward as well. Source: nanotron FP32GradientAccumulator, DeepSpeed
    BF16_Optimizer (half gradients are added and dropped after the whole backward).
    """
    if not context.numerics.separate_gradients:
        return {}
    # Outside plain modules, one micro-batch has nothing to add to: its gradients are cast as they come.
    adds = (context.layout.micro_batches > 1) | context.numerics.modules
    size: Bytes = itemsize(context.recipe.precision.parameters) * adds.astype(np.int64)
    whole = context.trainable_elements * size
    head, block, root = size * context.head_elements, size * context.block_elements, size * context.root_elements
    early = np.where(context.layout.micro_batches > 1, whole, 0)
    return {
        FORWARD_BLOCK: early,
        FORWARD_LOSS: early,
        BACKWARD_LOSS: early,
        LAST_BLOCK: np.maximum(early, head),
        NEXT_BLOCK: np.maximum(early, np.minimum(head + block, whole)),
        FIRST_BLOCK: np.maximum(early, whole - block - (root - head)),
        REDUCTION: whole,
    }


def litgpt_embeddings(context: Context) -> ByMoment:
    """Matrices of the vocabulary's size that LitGPT holds beside the model's own.

    bytes = vocabulary · hidden · (2, or the 4-bit size) of a head apart where the embedding is tied + 2 · vocabulary ·
    hidden of the embedding that bitsandbytes' replaced, over a quantised base

    Alive: always. Source: litgpt model.GPT (lm_head is a matrix of its own), finetune/lora.py (old_embedding).
    """
    if not context.numerics.litgpt:
        return {}
    architecture, matrix = context.recipe.model.architecture, vocabulary_elements(context)
    assert architecture is not None
    quantised = context.base_is_quantised
    head = context.zero
    if architecture.tied_embeddings:
        double = context.recipe.options.bnb_4bit_use_double_quant
        low = stored_bytes(context.base_dtype, matrix, architecture.hidden_size, double_quant=double)
        head = low if quantised else 2 * matrix
    return always(head + (2 * matrix if quantised else 0))


def vocabulary_elements(context: Context) -> Bytes:
    """Elements of the embedding, and of a head as large. [elements, (N, S)]"""
    total = context.zero
    for item in context.frozen:
        if item.tensor.module == "embed_tokens":
            total = np.maximum(total, item.elements * (item.copies > 0))
    return total


IMPLEMENTATION_LINES: tuple[Line, ...] = (
    Line("buffers.tensor_parallel", Bucket.COMMUNICATION_BUFFERS, tensor_parallel_buffers),
    Line("temporaries.mixed_units", Bucket.TEMPORARIES, mixed_units),
    Line("temporaries.separate_gradients", Bucket.TEMPORARIES, separate_gradients),
    Line("framework.litgpt_embeddings", Bucket.FRAMEWORK, litgpt_embeddings),
)
