"""Times of one block of each layer kind, and of the ends of the model: what the stages are added up from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accounting.model.tensors import LayerKind
from accounting.step_time.attention import core_backward_seconds, core_forward_seconds
from accounting.step_time.clock import Clock
from accounting.step_time.elementwise import block_forward_seconds, embedding_seconds, loss_seconds
from accounting.step_time.matmul import (
    Product,
    backward_factor,
    block_products,
    has_head,
    head_product,
    product_seconds,
)
from accounting.step_time.model_parallel import context_parallel, expert_parallel, tensor_parallel
from accounting.step_time.recompute import Again, recomputed
from accounting.step_time.traffic import Traffic
from accounting.step_time.vocabulary_parallel import (
    Exchange,
    embedding_exchange,
    head_exchange,
    loss_exchange,
    nothing,
    vocabulary_group,
)
from accounting.units import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Seconds of one micro-batch through one block (or one end of the model), (N, 1) each."""

    matmul_forward: Floats
    matmul_backward: Floats
    matmul_recompute: Floats
    attention_forward: Floats
    attention_backward: Floats
    attention_recompute: Floats
    elementwise_forward: Floats
    elementwise_backward: Floats
    elementwise_recompute: Floats
    tensor_parallel: Floats
    context_parallel: Floats
    expert_parallel: Floats
    host_stall: Floats
    forward: Floats
    """All of the forward, host stall included: the window a gather can hide in."""
    backward: Floats
    """All of the backward with its recomputation."""
    traffic: Traffic


class Passes(NamedTuple):
    """Seconds of one kind of work in the forward, in the backward, and again for recomputation, (N, 1) each."""

    forward: Floats
    backward: Floats
    again: Floats


def block_times(clock: Clock, unit: int, kind: LayerKind) -> Block:
    """Every part of one block's forward and backward. [second, (N, 1)]"""
    products, again = block_products(clock, unit), recomputed(clock)
    matmul = _matmul(clock, products, again)
    forward = core_forward_seconds(clock, kind)
    attention = Passes(forward, core_backward_seconds(clock, kind, forward), again.attention * forward)
    moved = block_forward_seconds(clock, unit, kind)
    elementwise = Passes(moved, clock.kernel.backward * moved, again.elementwise * moved)
    tensor, tensor_traffic, gathered_again = tensor_parallel(clock)
    context, context_traffic = context_parallel(clock, forward)
    expert, expert_traffic = expert_parallel(clock, kind)
    twice, thrice = 2 + again.collectives, 3 + again.collectives
    links = (twice * tensor, thrice * context, twice * expert)
    window, stall = _windows(clock, kind, (matmul, attention, elementwise), sum(links[1:], links[0]))
    return Block(
        matmul_forward=matmul.forward,
        matmul_backward=matmul.backward,
        matmul_recompute=matmul.again,
        attention_forward=attention.forward,
        attention_backward=attention.backward,
        attention_recompute=attention.again,
        elementwise_forward=elementwise.forward,
        elementwise_backward=elementwise.backward,
        elementwise_recompute=elementwise.again,
        tensor_parallel=links[0],
        context_parallel=links[1],
        expert_parallel=links[2],
        host_stall=stall,
        forward=window[0],
        backward=window[1],
        traffic=tensor_traffic.times(twice)
        + gathered_again
        + context_traffic.times(thrice)
        + expert_traffic.times(twice),
    )


def _matmul(clock: Clock, products: tuple[Product, ...], again: Again) -> Passes:
    forward = backward = np.zeros_like(clock.tokens)
    for product in products:
        seconds = product_seconds(clock, product)
        forward = forward + seconds
        backward = backward + backward_factor(product) * seconds
    return Passes(forward, backward, again.matmul * forward)


def _windows(
    clock: Clock, kind: LayerKind, work: tuple[Passes, ...], linked: Floats
) -> tuple[tuple[Floats, Floats], Floats]:
    """((forward, backward), host stall) of one block: a pass takes the longer of its device's and its host's time.

    The exposed collectives fall evenly on the passes over the block, of which recomputation makes one more.
    """
    again = recomputed(clock).matmul
    share = 1 / (2 + again)
    forward = sum((part.forward for part in work), share * linked)
    backward = sum((part.backward + part.again for part in work), (1 - share) * linked)
    host = _host_seconds(clock) * (clock.engine.host_mixture if kind.mixture else 1.0)
    before = np.maximum(host - forward, 0.0)
    after = np.maximum(host * (clock.engine.host_backward + again) - backward, 0.0)
    return (forward + before, backward + after), before + after


def _host_seconds(clock: Clock) -> Floats:
    """Host time of one block's forward: its kernels, tensor-parallel calls, exchanges in their way. [second, (N, 1)]"""
    engine, layout = clock.engine, clock.scenario.layout
    host = np.full_like(clock.tp, engine.host_block_seconds * clock.kernel.host)
    split = layout.tp > 1
    host = host + np.where(split, engine.host_tensor_parallel_seconds, 0.0)
    serial = layout.sequence_parallel & split & (layout.pp > 1)
    further = np.ceil(layout.tp / clock.scenario.machine.scaleup_domain) - 1
    ranks = clock.tp * (1 + engine.host_serial_across * further)
    host = host + np.where(serial, engine.host_serial_seconds * ranks, 0.0)
    return host * clock.device.host_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Seconds of one micro-batch in the first stage's embedding and the last stage's head and loss, (N, 1)."""

    embedding: Floats
    head: Floats
    loss: Floats
    exchanges: tuple[Exchange, Exchange, Exchange]
    """Of tensor-parallel ranks over the vocabulary: embedding, head, loss."""

    @property
    def first(self) -> Floats:
        """All of the first stage's end."""
        return self.embedding + self.exchanges[0].seconds

    @property
    def last(self) -> Floats:
        """All of the last stage's end."""
        return self.head + self.loss + self.exchanges[1].seconds + self.exchanges[2].seconds


def end_times(clock: Clock) -> Ends:
    """Embedding; head forward and backward; loss. A model without a vocabulary head (labels) has a negligible one."""
    zero, group = np.zeros_like(clock.tokens), vocabulary_group(clock)
    summed, none = embedding_exchange(clock, group), nothing(clock)
    if not has_head(clock):
        return Ends(
            embedding=embedding_seconds(clock),
            head=zero,
            loss=zero,
            exchanges=(summed, none, none),
        )
    head = head_product(clock)
    forward = product_seconds(clock, head)
    return Ends(
        embedding=embedding_seconds(clock),
        head=forward * (1 + backward_factor(head)),
        loss=loss_seconds(clock),
        exchanges=(summed, head_exchange(clock, group, forward), loss_exchange(clock, group)),
    )
