"""Work bound by device memory: norms, residuals, activations, rotations, routing, loss."""

from __future__ import annotations

from functools import reduce

import numpy as np

from accounting.model.tensors import LayerKind
from accounting.step_time.attention import ring_steps, score_bytes
from accounting.step_time.clock import Clock
from accounting.units import Floats

_LOSS_BYTES = {"standard": 1.0, "chunked": 1.0, "fused": 0.45}
"""Traffic of a loss over the unfused one; Liger and Megatron's fused cross-entropy write logits once, in 16 bits."""
_PARTIAL_BYTES = 16.0
"""Each round of a ring rescales its partial output and adds it to the fp32 one: reads 2 + 4 + 4, writes 4, and packs
2. Source: Transformer Engine's ring attention (fwd_out_correction). [byte per token and unit of q]"""


def block_bytes(clock: Clock, unit: int, kind: LayerKind) -> Floats:
    """Bytes that one block's element-wise kernels move in the forward. [byte, (N, 1)]

    tokens·(c_h·h/split + c_f·f/tp + c_r·(q + g)/tp + 16·rounds·q/tp + c_a·Σ(in + out) of adapted weights) + scores; c
    by kernel style, split = tp under sequence parallelism, rounds of a ring over context-parallel ranks.
    """
    shape, kernel, tokens, rounds = clock.architecture, clock.kernel, clock.tokens, ring_steps(clock)
    dropout = clock.scenario.recipe.options.dropout
    dropped = shape.dropout if dropout is None else dropout
    hidden = kernel.hidden + (kernel.hidden_dropout if dropped else 0.0)
    moved = tokens * hidden * shape.hidden_size / clock.norm_split
    moved = moved + tokens * _activation_bytes(clock, kind)
    if not shape.learned_positions:
        moved = moved + tokens * kernel.rotary * (shape.query_width + shape.key_value_width) / clock.tp
    moved = moved + tokens * kernel.adapted * _adapted_width(clock, unit)
    moved = moved + tokens * _PARTIAL_BYTES * np.where(rounds > 1, rounds, 0.0) * shape.query_width / clock.tp
    return moved * (clock.activation_bytes / 2) + score_bytes(clock, kind)


def _adapted_width(clock: Clock, unit: int) -> Floats | float:
    """Inputs and outputs of a block's weights with an adapter: the long sides of its matrices. [elements, (N, 1)]"""
    sides = [
        reduce(np.maximum, item.dims).astype(np.float64) * item.tensor.count
        for item in clock.partition.local
        if item.unit == unit and item.tensor.adapter
    ]
    return sum(sides[1:], sides[0]) if sides else 0.0


def _activation_bytes(clock: Clock, kind: LayerKind) -> Floats:
    """Of the MLP's activation per token; for a mixture over the chosen experts, with its scatter and gather."""
    shape, kernel = clock.architecture, clock.kernel
    per_unit = kernel.gated if shape.gated_mlp else kernel.plain
    if not kind.mixture or shape.moe is None:
        return per_unit * shape.ffn_size / clock.tp
    width = shape.moe.top_k * shape.moe.expert_ffn_size + shape.moe.shared_ffn_size
    routed = kernel.routed * shape.moe.top_k * shape.hidden_size
    return (per_unit * width + routed) / clock.tp


def block_forward_seconds(clock: Clock, unit: int, kind: LayerKind) -> Floats:
    """Element-wise work of one block's forward at the reachable bandwidth. [second, (N, 1)]"""
    return block_bytes(clock, unit, kind) / clock.memory_rate


def loss_seconds(clock: Clock) -> Floats:
    """Loss over the logits, forward and backward: bytes per logit · tokens · V/tp. [second, (N, 1)]"""
    logits = clock.tokens * np.ceil(clock.architecture.vocab_size / clock.tp)
    return logits * clock.kernel.logits * _LOSS_BYTES[clock.scenario.recipe.options.loss] / clock.memory_rate


def embedding_seconds(clock: Clock) -> Floats:
    """Look-up and its gradient: three passes over tokens·h. [second, (N, 1)]"""
    return 3 * 2 * clock.activation_bytes * clock.tokens * clock.architecture.hidden_size / clock.memory_rate
