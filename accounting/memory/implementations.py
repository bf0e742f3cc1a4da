"""Lines that only some code bases hold: nanotron's collectives, gradients beside a buffer, mixed flat parameters."""

from __future__ import annotations

import numpy as np

from accounting.facts.dtypes import itemsize
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


IMPLEMENTATION_LINES: tuple[Line, ...] = (
    Line("buffers.tensor_parallel", Bucket.COMMUNICATION_BUFFERS, tensor_parallel_buffers),
    Line("temporaries.mixed_units", Bucket.TEMPORARIES, mixed_units),
    Line("temporaries.separate_gradients", Bucket.TEMPORARIES, separate_gradients),
)
