"""Which share of a block's forward runs a second time in the backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from accounting.step_time.clock import Clock
from accounting.units import Floats
from accounting.vocabulary import RecomputeMode


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the forward's products, attention core, element-wise work and collectives."""

    matmul: float
    attention: float
    elementwise: float
    collectives: float


_MODULES: Mapping[str, Shares] = {
    "core_attn": Shares(0.0, 1.0, 0.3, 0.0),
    "attention": Shares(0.0, 1.0, 0.3, 0.0),
    "mla_up_proj": Shares(0.1, 0.0, 0.0, 0.0),
    "mlp": Shares(0.65, 0.0, 0.4, 0.5),
    "moe": Shares(0.8, 0.0, 0.5, 1.0),
    "moe_act": Shares(0.0, 0.0, 0.3, 0.0),
    "layernorm": Shares(0.0, 0.0, 0.3, 0.0),
    "shared_experts": Shares(0.1, 0.0, 0.1, 0.0),
}
"""Megatron-Core's `recompute_modules`."""

_OPERATOR = {"op": Shares(0.45, 0.0, 1.0, 0.0)}
"""torchtitan's `selective_ac_option`: `op` saves attention and every second product."""


@dataclass(frozen=True, slots=True)
class Again:
    """The shares with the part of the blocks they hold for, (N, 1) each."""

    matmul: Floats
    attention: Floats
    elementwise: Floats
    collectives: Floats


def recomputed(clock: Clock) -> Again:
    """Share of each part of the forward that the backward repeats. [1, (N, 1)]

    full: all of it, for one block in `every` or `layers` blocks of a stage; selective: the attention core, or the named
    modules, or all but the saved operators. Source: Korthikanti 2022 §5; torchtitan selective activation checkpointing.
    """
    recompute, options = clock.scenario.recipe.recompute, clock.scenario.recipe.options
    part = np.ones_like(clock.tokens)
    if recompute.mode is RecomputeMode.NONE:
        shares = Shares(0.0, 0.0, 0.0, 0.0)
    elif recompute.mode is RecomputeMode.FULL:
        shares = Shares(1.0, 1.0, 1.0, 1.0)
        part = part / recompute.every
        if recompute.layers is not None:
            per_stage = clock.architecture.layers / clock.scenario.layout.pp
            part = np.minimum(recompute.layers / per_stage, 1.0)
    elif options.selective_ac_option is not None:
        shares, part = _operator_shares(options.selective_ac_option, part)
    else:
        named = recompute.modules or options.recompute_modules or ("core_attn",)
        shares = _sum_of(tuple(_MODULES[name] for name in named if name in _MODULES))
    return Again(*(part * value for value in (shares.matmul, shares.attention, shares.elementwise, shares.collectives)))


def _operator_shares(option: str, part: Floats) -> tuple[Shares, Floats]:
    if option.isdigit() and int(option) > 0:
        return Shares(1.0, 1.0, 1.0, 1.0), part / int(option)
    return _OPERATOR.get(option, _OPERATOR["op"]), part


def _sum_of(rows: tuple[Shares, ...]) -> Shares:
    return Shares(
        min(sum(row.matmul for row in rows), 1.0),
        min(sum(row.attention for row in rows), 1.0),
        min(sum(row.elementwise for row in rows), 1.0),
        min(sum(row.collectives for row in rows), 1.0),
    )
