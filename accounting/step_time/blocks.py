"""Times of one block of each layer kind, and of the ends of the model: what the stages are added up from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accounting.model.tensors import LayerKind
from accounting.step_time.attention import core_backward_seconds, core_flops, core_forward_seconds
from accounting.step_time.clock import Clock
from accounting.step_time.elementwise import block_forward_seconds, embedding_seconds, loss_seconds
from accounting.step_time.matmul import backward_factor, block_products, head_product, product_seconds
from accounting.step_time.model_parallel import context_parallel, expert_parallel, tensor_parallel
from accounting.step_time.recompute import recomputed
from accounting.step_time.traffic import Traffic
from accounting.units import Floats

_HOST_MIXTURE = 2.0
"""A mixture block launches about twice a dense block's kernels (router, permutation, grouped products)."""


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
    model_flops: Floats
    """Forward, standard definition: products and full (not causal) attention."""
    recomputed_flops: Floats
    traffic: Traffic


def block_times(clock: Clock, unit: int, kind: LayerKind) -> Block:
    """Every part of one block's forward and backward. [second, (N, 1)]"""
    products = block_products(clock, unit)
    seconds = [product_seconds(clock, item) for item in products]
    zero = np.zeros_like(clock.tokens)
    matmul = sum(seconds, zero)
    matmul_backward = sum((backward_factor(item) * time for item, time in zip(products, seconds, strict=True)), zero)
    attention = core_forward_seconds(clock, kind)
    elementwise = block_forward_seconds(clock, kind)
    tensor, tensor_traffic = tensor_parallel(clock)
    context, context_traffic = context_parallel(clock, attention)
    expert, expert_traffic = expert_parallel(clock, kind)
    again = recomputed(clock)
    core = core_flops(clock, kind, full=True)
    linear = sum((item.flops for item in products), zero)
    return _assemble(
        clock,
        kind,
        matmul=(matmul, matmul_backward, again.matmul * matmul),
        attention=(attention, core_backward_seconds(clock, kind, attention), again.attention * attention),
        elementwise=(elementwise, clock.kernel.backward * elementwise, again.elementwise * elementwise),
        links=((2 + again.collectives) * tensor, (3 + again.collectives) * context, (2 + again.collectives) * expert),
        flops=(linear + core, again.matmul * linear + again.attention * core),
        traffic=tensor_traffic.times(2 + again.collectives)
        + context_traffic.times(3 + again.collectives)
        + expert_traffic.times(2 + again.collectives),
        again=again.matmul,
    )


def _assemble(  # noqa: PLR0913 - one argument per family of parts
    clock: Clock,
    kind: LayerKind,
    *,
    matmul: tuple[Floats, Floats, Floats],
    attention: tuple[Floats, Floats, Floats],
    elementwise: tuple[Floats, Floats, Floats],
    links: tuple[Floats, Floats, Floats],
    flops: tuple[Floats, Floats],
    traffic: Traffic,
    again: Floats,
) -> Block:
    linked = links[0] + links[1] + links[2]
    share = 1 / (2 + again)
    forward = matmul[0] + attention[0] + elementwise[0] + share * linked
    backward = sum(part[1] + part[2] for part in (matmul, attention, elementwise)) + (1 - share) * linked
    host = _host_seconds(clock) * (_HOST_MIXTURE if kind.mixture else 1.0)
    stall_forward = np.maximum(host - forward, 0.0)
    stall_backward = np.maximum(host * (clock.engine.host_backward + again) - backward, 0.0)
    return Block(
        matmul_forward=matmul[0],
        matmul_backward=matmul[1],
        matmul_recompute=matmul[2],
        attention_forward=attention[0],
        attention_backward=attention[1],
        attention_recompute=attention[2],
        elementwise_forward=elementwise[0],
        elementwise_backward=elementwise[1],
        elementwise_recompute=elementwise[2],
        tensor_parallel=links[0],
        context_parallel=links[1],
        expert_parallel=links[2],
        host_stall=stall_forward + stall_backward,
        forward=forward + stall_forward,
        backward=backward + stall_backward,
        model_flops=flops[0],
        recomputed_flops=flops[1],
        traffic=traffic,
    )


def _host_seconds(clock: Clock) -> Floats:
    """Host time of one block's forward: its kernels, tensor-parallel calls, exchanges in their way. [second, (N, 1)]"""
    engine, layout = clock.engine, clock.scenario.layout
    host = np.full_like(clock.tp, engine.host_block_seconds * clock.kernel.host)
    split = layout.tp > 1
    host = host + np.where(split, engine.host_tensor_parallel_seconds, 0.0)
    serial = layout.sequence_parallel & split & (layout.pp > 1)
    host = host + np.where(serial, engine.host_serial_seconds * clock.tp, 0.0)
    return host * clock.device.host_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Seconds of one micro-batch in the first stage's embedding and the last stage's head and loss, (N, 1)."""

    embedding: Floats
    head: Floats
    loss: Floats
    head_flops: Floats
    """Forward."""


def end_times(clock: Clock) -> Ends:
    """Embedding; head forward and backward; loss. A model without a vocabulary head (labels) has a negligible one."""
    zero = np.zeros_like(clock.tokens)
    if clock.architecture.head not in {"lm", "masked_lm"}:
        return Ends(embedding=embedding_seconds(clock), head=zero, loss=zero, head_flops=zero)
    head = head_product(clock)
    return Ends(
        embedding=embedding_seconds(clock),
        head=product_seconds(clock, head) * (1 + backward_factor(head)),
        loss=loss_seconds(clock),
        head_flops=head.flops,
    )
