"""Lower bounds: what a candidate takes at least, cheap enough to spare it the whole evaluation.

A bound only ever rules out what cannot be shown: a candidate that is slower at best than another layout of the same
machine and count costs more as well (a place has one rate), so that the other is before it in every order.
"""

from __future__ import annotations

import numpy as np

from accounting.facts.calibration import CALIBRATION
from accounting.scenario import Recipe, Scenario
from accounting.units import TERA, Floats
from accounting.vocabulary import RecomputeMode, Schedule

FULL_BUBBLE = (Schedule.ONE_F_ONE_B, Schedule.GPIPE, Schedule.INTERLEAVED)
"""Schedules whose stages wait for one another for a whole pass of the pipeline."""
LANGUAGE_HEADS = ("lm", "masked_lm")


def product_flops(recipe: Recipe) -> float:
    """FLOP of a token in the matrix products of a step: forward, backward and full recomputation. [FLOP]

    2 · elements a pass: three passes over trained weights, two over frozen ones, one more where all is recomputed.
    Source: `accounting.step_time.matmul`.
    """
    architecture = recipe.model.architecture
    if architecture is None:
        return 0.0
    recompute = recipe.recompute
    again = recompute.mode is RecomputeMode.FULL and recompute.every == 1 and recompute.layers is None
    total = 0.0
    for tensor, times in recipe.inventory.all_tensors():
        if tensor.linear and tensor.role != "head":
            copies: float = tensor.count
            if tensor.expert and architecture.moe is not None:
                copies = architecture.moe.top_k * recipe.options.expert_imbalance
            total += 2.0 * tensor.elements * copies * times * ((3 if tensor.trainable else 2) + again)
    if architecture.head in LANGUAGE_HEADS:
        total += 2.0 * architecture.hidden_size * architecture.vocab_size * (3 if recipe.adapter is None else 2)
    return total


def fastest_rate(scenario: Scenario) -> Floats:
    """A rate that no matrix product of a candidate exceeds, by the constants of the time model. [FLOP/s, (N, 1)]

    The largest peak of the recipe's dtype and the wider ones · the share of it that an endless product reaches.
    """
    fastest = max(max(row.products, 1.0) * max(row.grouped, 1.0) for row in CALIBRATION.kernels.values())
    small = max([1.0, *(row.efficiency for row in CALIBRATION.low_precision.values())])
    machine, single = scenario.machine, scenario.recipe.precision.compute == "fp32"
    rates = []
    for row in machine.accelerators:
        share = 1.0 if single else CALIBRATION.device(row.slug, row.architecture).gemm_efficiency * fastest * small
        known = (row.fp32_tflops,) if single else (row.bf16_tflops, row.fp16_tflops, row.fp32_tflops)
        peak = max((rate for rate in known if rate is not None), default=np.nan) * TERA
        rates.append((share, peak))
    share, peak = np.asarray(rates, dtype=np.float64).reshape(-1, 2)[machine.accelerator_index[:, 0]].T
    rate: Floats = share.reshape(-1, 1) * np.fmax(machine.peak_flops, peak.reshape(-1, 1))
    return rate


def least_seconds(scenario: Scenario, flops_per_token: float) -> Floats:
    """What a step takes at least, its matrix products at the best rate and the pipeline's bubble. [second, (N, 1)]

    f·tokens of a step / (count · rate) · (1 + (pp - 1) / (v · m)): no stage is shorter than their mean.
    NaN where no rate is known.
    """
    layout = scenario.layout
    ideal = flops_per_token * layout.tokens_per_step / (layout.count * fastest_rate(scenario))
    if scenario.recipe.schedule not in FULL_BUBBLE:
        return ideal
    return ideal * (1.0 + (layout.pp - 1) / (np.maximum(layout.vpp, 1) * layout.micro_batches))
