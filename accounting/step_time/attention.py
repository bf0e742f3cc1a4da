"""The attention core: scores, softmax and weighted sum, fused (flash, sdpa) or written out (eager)."""

from __future__ import annotations

import numpy as np

from accounting.model.tensors import LayerKind
from accounting.step_time.clock import Clock
from accounting.units import Floats
from accounting.vocabulary import Attention

_TENSOR_CORE_MULTIPLE = 8
_WITHOUT_TENSOR_CORES = 0.25
"""A batched 16-bit product whose inner dimension is no multiple of 8 misses tensor cores: 78 of 312 TFLOP/s on A100.
Source: NVIDIA deep learning performance guide (matrix multiplication); A100 white paper."""


def context_length(clock: Clock, kind: LayerKind, *, full: bool) -> Floats:
    """Keys a query attends to, on average. [tokens, (N, 1)]

    s full; causal s/2; in a window w: w - w²/2s causal, w full. `full` asks for the convention without the causal half.
    """
    sequence = clock.scenario.layout.sequence_length.astype(np.float64)
    causal = clock.architecture.causal and not kind.encoder and not full
    if kind.window is None:
        return sequence / 2 if causal else sequence
    window = np.minimum(float(kind.window), sequence)
    return window - window * window / (2 * sequence) if causal else window


def core_width(clock: Clock) -> Floats:
    """Width of the two products of the core together, per rank: heads·(d_qk + d_v)/tp. [elements, (N, 1)]"""
    shape = clock.architecture
    if shape.mla is not None:
        per_head = shape.mla.qk_nope_head_dim + shape.mla.qk_rope_head_dim + shape.mla.v_head_dim
        return shape.heads * per_head / clock.tp
    return 2 * shape.query_width / clock.tp


def core_flops(clock: Clock, kind: LayerKind, *, full: bool) -> Floats:
    """Forward of one block: 2·tokens·context·heads·(d_qk + d_v)/tp. [FLOP, (N, 1)]"""
    return 2 * clock.tokens * context_length(clock, kind, full=full) * core_width(clock)


def ring_steps(clock: Clock) -> Floats:
    """Rounds a ring over the ranks of a sequence makes, each over one rank's keys; 1 without it. [1, (N, 1)]"""
    layout = clock.scenario.layout
    if clock.scenario.recipe.options.cp_comm_type == "a2a":
        return np.ones_like(clock.tokens)
    return layout.cp.astype(np.float64)


def is_fused(clock: Clock) -> bool:
    """True where the scores never reach memory."""
    return clock.scenario.recipe.attention is not Attention.EAGER


def core_forward_seconds(clock: Clock, kind: LayerKind) -> Floats:
    """Forward of one block's core. [second, (N, 1)]

    fused: FLOP/(P·e·s/(s + s0)) + t0, causal half not computed, s the keys of one round; eager: two batched products
    over all scores.
    Source: Dao 2023 (FlashAttention-2) tables; constants by fit.
    """
    device = clock.device
    if is_fused(clock):
        reach = context_length(clock, kind, full=True) / ring_steps(clock)
        rate = device.dense_peak * device.attention_forward * clock.kernel.attention * clock.engine.attention
        rate = rate * reach / (reach + device.attention_ramp)
        return core_flops(clock, kind, full=False) / rate + device.kernel_seconds
    width = core_width(clock) / 2 * clock.tp / clock.architecture.heads
    rate = device.dense_peak * device.gemm_efficiency * width / (width + device.gemm_ramp)
    if clock.architecture.head_dim % _TENSOR_CORE_MULTIPLE:
        rate = rate * _WITHOUT_TENSOR_CORES
    return core_flops(clock, kind, full=True) / rate + 2 * device.kernel_seconds


def core_backward_seconds(clock: Clock, kind: LayerKind, forward: Floats) -> Floats:
    """Backward of one block's core: 2.5 × the FLOP where fused (scores are made again), else 2 ×. [second, (N, 1)]"""
    if is_fused(clock):
        return 2.5 * forward * clock.device.attention_forward / clock.device.attention_backward
    return 2.0 * forward


def score_bytes(clock: Clock, kind: LayerKind) -> Floats:
    """Traffic of scaling, masking, softmax and dropout over written-out scores, forward. [byte, (N, 1)]"""
    if is_fused(clock):
        return np.zeros_like(clock.tokens)
    scores = clock.tokens * context_length(clock, kind, full=True) * clock.architecture.heads / clock.tp
    return scores * clock.kernel.scores * clock.activation_bytes / 2
