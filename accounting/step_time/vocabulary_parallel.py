"""Collectives at a model's two ends where tensor parallelism cuts the vocabulary, and where a pipeline ties them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.facts.dtypes import find_dtype
from accounting.step_time.clock import Clock
from accounting.step_time.network import Collective, Group, collective_seconds, group_of, traffic_of
from accounting.step_time.stages import total
from accounting.step_time.traffic import Traffic
from accounting.units import Floats
from accounting.vocabulary import Engine

_LOSS_BYTES = 4.0
"""Largest logit, sum of exponentials and the target's logit of a token, fp32 each."""
_LOSS_CALLS = {"standard": (1.0, 1.0, 1.0), "chunked": (1.0, 1.0, 1.0), "fused": (1.0, 2.0)}
"""Those three by the all-reduces they travel in; Megatron-Core's fused loss sends the last two as one."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What tensor-parallel ranks send at one place in a micro-batch, forward and backward, (N, 1)."""

    seconds: Floats
    """Exposed."""
    traffic: Traffic


def embedding_exchange(clock: Clock, group: Group) -> Exchange:
    """Every rank looks up its share of the vocabulary: the outputs are summed, and nothing runs beside that. [(N, 1)]

    forward an all-reduce of tokens·h; under sequence parallelism a reduce-scatter, and an all-gather in the backward.
    Megatron adds learned positions to the whole sum: it all-reduces, splits, and gathers in the backward.
    Source: Megatron-Core VocabParallelEmbedding and LanguageModelEmbedding; torchtitan's RowwiseParallel embedding;
    nanotron TensorParallelEmbedding.
    """
    size, sequence = _boundary(clock), clock.scenario.layout.sequence_parallel
    whole = clock.architecture.learned_positions and clock.scenario.recipe.engine is Engine.MEGATRON
    summed = Collective.ALL_REDUCE if whole else Collective.REDUCE_SCATTER
    return _where(
        sequence,
        lambda: _sum(_moved(clock, summed, size, group), _moved(clock, Collective.ALL_GATHER, size, group)),
        lambda: _moved(clock, Collective.ALL_REDUCE, size, group),
    )


def head_exchange(clock: Clock, group: Group, product: Floats) -> Exchange:
    """The head's input is gathered and its gradient summed. [(N, 1)]

    sequence parallelism: an all-gather of tokens·h forward, a reduce-scatter backward; without it one all-reduce in the
    backward. Megatron-style layers sum beside the weight's gradient (a forward product's time) and gather the input
    once more beside the data's.
    Source: Megatron-Core ColumnParallelLinear; torchtitan's ColwiseParallel output; nanotron column_linear.
    """
    size, sequence = _boundary(clock), clock.scenario.layout.sequence_parallel
    style = clock.scenario.recipe.engine is Engine.MEGATRON

    def split() -> Exchange:
        gathered = _moved(clock, Collective.ALL_GATHER, size, group)
        scattered = _moved(clock, Collective.REDUCE_SCATTER, size, group)
        if not style:
            return _sum(gathered, scattered)
        again = Exchange(np.zeros_like(clock.tokens), gathered.traffic)
        return _sum(_sum(gathered, again), _beside(scattered, product))

    def whole() -> Exchange:
        reduced = _moved(clock, Collective.ALL_REDUCE, size, group)
        return _beside(reduced, product) if style else reduced

    return _where(sequence, split, whole)


def loss_exchange(clock: Clock, group: Group) -> Exchange:
    """A vocabulary-parallel loss adds up what its ranks know of each token. [(N, 1)]

    forward all-reduces of 4 B a token: largest logit, sum of exponentials, the target's logit; the backward needs none.
    Source: Megatron-Core vocab_parallel_cross_entropy and its fused form; torch loss_parallel (torchtitan's default);
    nanotron sharded_cross_entropy.
    """
    found = nothing(clock)
    for numbers in _LOSS_CALLS[clock.scenario.recipe.options.loss]:
        found = _sum(found, _moved(clock, Collective.ALL_REDUCE, numbers * _LOSS_BYTES * clock.tokens, group))
    return found


def vocabulary_group(clock: Clock) -> Group:
    """The ranks that cut the vocabulary: the tensor-parallel ones."""
    return group_of(clock, clock.scenario.layout.tp, 1)


def tied_exchange(clock: Clock) -> Exchange:
    """Gradients of an embedding that the first and the last pipeline stage both hold, once a step. [(N, 1)]

    an all-reduce of V·h/tp in the gradients' type between the two stages; nothing runs beside it. Traffic of those two.
    Source: Megatron-LM finalize_model_grads (embedding group); DeepSpeed's tied layers; nanotron's tied weights.
    """
    layout, partition = clock.scenario.layout, clock.partition
    if not (layout.pp > 1).any():
        return nothing(clock)
    both = partition.is_last & ~partition.is_first
    held = [
        item.elements * total(item.copies * both)
        for item in partition.local
        if item.tensor.role == "embedding" and item.unit < 0 and item.leading and item.tensor.trainable
    ]
    if not held or not any(elements.any() for elements in held):
        return nothing(clock)
    precision = clock.scenario.recipe.precision
    width = float(find_dtype(precision.gradients or precision.parameters).bytes_per_element)
    size = width * np.asarray(sum(held[1:], held[0]), dtype=np.float64)
    # the two ends of one node's pipeline stand in it, however far apart they are
    near, apart = layout.count // layout.pp, layout.count // layout.pp * (layout.pp - 1)
    stride = np.where(layout.count <= clock.scenario.machine.scaleup_domain, near, np.maximum(apart, 1))
    pair = group_of(clock, np.minimum(layout.pp, 2), stride)
    seconds = collective_seconds(clock, Collective.ALL_REDUCE, size, pair)
    return Exchange(seconds, traffic_of(Collective.ALL_REDUCE, size, pair))


def _boundary(clock: Clock) -> Floats:
    return clock.tokens * clock.architecture.hidden_size * clock.activation_bytes


def _moved(clock: Clock, collective: Collective, size: Floats, group: Group) -> Exchange:
    """One collective, waited for: dearer across nodes as the blocks' own are."""
    if group.alone:
        return nothing(clock)
    seconds = collective_seconds(clock, collective, size, group)
    return Exchange(
        seconds * clock.engine.tensor_parallel_across ** np.log2(group.islands), traffic_of(collective, size, group)
    )


def _beside(moved: Exchange, hidden: Floats) -> Exchange:
    return Exchange(np.maximum(moved.seconds - hidden, 0.0), moved.traffic)


def _sum(left: Exchange, right: Exchange) -> Exchange:
    return Exchange(left.seconds + right.seconds, left.traffic + right.traffic)


def nothing(clock: Clock) -> Exchange:
    """Where nothing is sent."""
    return Exchange(np.zeros_like(clock.tokens), Traffic())


def _where(chosen: NDArray[np.bool_], split: Callable[[], Exchange], whole: Callable[[], Exchange]) -> Exchange:
    if chosen.all():
        return split()
    if not chosen.any():
        return whole()
    left, right = split(), whole()
    traffic = left.traffic.times(chosen.astype(np.float64)) + right.traffic.times((~chosen).astype(np.float64))
    return Exchange(np.where(chosen, left.seconds, right.seconds), traffic)
