"""FLOP by the published definitions, of the model and not of its shards: what MFU and HFU divide."""

from __future__ import annotations

import numpy as np

from accounting.model.tensors import LayerKind, Tensor
from accounting.step_time.attention import core_flops
from accounting.step_time.clock import Clock
from accounting.step_time.matmul import has_head
from accounting.step_time.recompute import recomputed
from accounting.units import Floats

_PASSES = {True: 3.0, False: 2.0}
"""Forward, input gradient and, of a trainable weight, weight gradient."""


def step_flops(clock: Clock) -> tuple[Floats, Floats]:
    """(model FLOP, hardware FLOP) of a step over all devices. [FLOP, (N, 1)]

    model: 6 a token and weight in a product (of a mixture the chosen experts', of an embedding none, of a frozen weight
    4: it has no gradient) and 12·heads·head dim·context a token and block, all of the context where half is masked.
    hardware: the same and the forward of what is computed again; the scores that a fused backward makes again count in
    neither. What cutting rounds up, copies or leaves unbalanced is no work of the model.
    Source: Chowdhery 2022 (PaLM) appendix B; Korthikanti 2022 §6.3.
    """
    recipe, tokens = clock.scenario.recipe, clock.scenario.layout.tokens_per_step.astype(np.float64)
    again = recomputed(clock)
    model = hardware = np.zeros_like(clock.tokens)
    for index, kind in enumerate(recipe.inventory.kinds):
        blocks = recipe.inventory.pattern.count(index)
        trained, frozen = (linear_flops(clock, kind, trainable=trainable) for trainable in (True, False))
        core = core_flops(clock, kind, full=True) * clock.tp / clock.tokens
        model = model + blocks * (_PASSES[True] * (trained + core) + _PASSES[False] * frozen)
        hardware = hardware + blocks * (again.matmul * (trained + frozen) + again.attention * core)
    if has_head(clock):
        shape = clock.architecture
        model = model + _PASSES[recipe.adapter is None] * 2.0 * shape.hidden_size * shape.vocab_size
    return model * tokens, (model + hardware) * tokens


def linear_flops(clock: Clock, kind: LayerKind, *, trainable: bool) -> float:
    """Forward of a block's products a token: 2 FLOP a weight, of a mixture's the chosen experts'. [FLOP]"""
    mixture = clock.architecture.moe
    chosen = mixture.top_k if mixture is not None else 1
    return 2.0 * sum(
        tensor.elements * (chosen if tensor.expert else tensor.count)
        for tensor in kind.tensors
        if _multiplied(tensor) and tensor.trainable is trainable
    )


def _multiplied(tensor: Tensor) -> bool:
    """Linear layers, a mixture's router and an adapter's two matrices."""
    return tensor.linear or tensor.role == "router" or (tensor.adapter and len(tensor.shape) > 1)
