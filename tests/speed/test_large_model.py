"""GPT-3 175B on up to 512 A100 of 80 GB over the whole parallel space: the exact optimum, with bounds and without.

8.6 million configurations: every whole node and parts of one, tp, pp, virtual stages, micro-batch up to a batch of
2048, three modes of recomputation, ZeRO 0 and 1, four offloads. Absolute figures are printed (`-s`) for a quiet
machine: 20 s without bounds, 5 s with them, on one core.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from planner.requests import read_plan
from planner.search.found import Found
from planner.search.problem import PlanProblem
from planner.search.scan import scan
from tests.planner.requests.samples import CONTEXT
from tests.planner.search.test_exhaustive import shown
from tests.speed.test_rates import seconds

LAYERS, SEQUENCE, BATCH = 96, 2048, 2048
GPT3 = {
    "model_type": "gpt2",
    "n_embd": 12288,
    "n_layer": LAYERS,
    "n_head": 96,
    "n_inner": None,
    "vocab_size": 50257,
    "n_positions": SEQUENCE,
    "activation_function": "gelu_new",
    "tie_word_embeddings": True,
    "layer_norm_epsilon": 1e-5,
}
STAGES = [stages for stages in range(1, 49) if LAYERS % stages == 0]
REQUEST: dict[str, Any] = {
    "model": {"config": GPT3},
    "workload": {"tokens": 300 * 10**9, "sequence_length": SEQUENCE, "global_batch_tokens": BATCH * SEQUENCE},
    "hardware": {
        "accelerators": ["a100-sxm4-80gb"],
        "providers": ["aws"],
        "max_count": 512,
        "counts": [1, 2, 4, *range(8, 513, 8)],
    },
    "engines": ["megatron"],
    "precisions": ["bf16-master-fp32grad"],
    "search": {
        "zero_stages": [0, 1],
        "tp": [1, 2, 4, 8],
        "pp": STAGES,
        "vpp": STAGES,
        "cp": [1],
        "ep": [1],
        "micro_batch_sizes": [1 << power for power in range(12)],
        "recompute": ["none", "selective", "full"],
        "offload": ["none", "cpu", {"activations": "cpu"}, {"optimizer": "cpu", "activations": "cpu"}],
    },
}
MOST_SECONDS = {False: 20.0, True: 5.0}
LOADED = 3.0
"""How much slower a busy machine may be before a figure means that the search became slower."""
MEMORY_LIMIT = 500 * 10**6


def scanned(problem: PlanProblem, *, prune: bool) -> Found:
    return scan(problem, lambda done, total: None, lambda: False, prune=prune)


@pytest.mark.slow
def test_the_optimum_of_a_large_model_is_exact_and_quick() -> None:
    problem = read_plan(REQUEST, CONTEXT)
    found: dict[bool, Found] = {}
    took = {}
    for prune in (False, True):
        took[prune] = seconds(lambda prune=prune: found.update({prune: scanned(problem, prune=prune)}))
    whole, pruned = found[False], found[True]
    print(
        f"\n{whole.candidates:,} configurations, {whole.feasible_count:,} feasible: exhaustive {took[False]:.1f} CPU s "
        f"({whole.candidates / took[False]:,.0f} a second), with bounds {took[True]:.1f} s, "
        f"{took[False] / took[True]:.2f} times as fast; {pruned.spared:,} spared"
    )
    assert whole.candidates > 8_500_000
    assert shown(problem, pruned) == shown(problem, whole)
    assert pruned.spared > whole.feasible_count
    assert took[True] < took[False]
    for prune, most in MOST_SECONDS.items():
        assert took[prune] < LOADED * most


@pytest.mark.slow
def test_the_memory_of_a_large_search_is_small() -> None:
    problem = read_plan(REQUEST, CONTEXT)
    peaks = []
    for prune in (False, True):
        tracemalloc.start()
        scanned(problem, prune=prune)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    print(f"\npeak {peaks[0] / 1e6:,.0f} MB without bounds, {peaks[1] / 1e6:,.0f} MB with")
    assert max(peaks) < MEMORY_LIMIT
