"""Plan requests for the search's tests: a fixed one, and random small ones."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from planner.errors import InvalidRequest
from planner.requests import read_plan
from planner.search.problem import PlanProblem
from tests.planner.requests.samples import CONTEXT, LLAMA, MIXTRAL, put

DEVICES = ("a10g", "l4", "a100-sxm4-40gb", "h100-sxm5-80gb", "gb200-186gb", "mi300x", "l40s", "v100-sxm2-16gb")
SMALL: dict[str, Any] = {
    "model": "llama-3-8b",
    "workload": {"tokens": 10**9, "sequence_length": 4096, "global_batch_tokens": 16 * 4096},
    "hardware": {"accelerators": ["h100-sxm5-80gb"], "pricing": ["on-demand"], "max_count": 16},
    "engines": ["fsdp2"],
    "search": {"zero_stages": [3], "tp": [1, 2], "pp": [1], "cp": [1], "ep": [1], "micro_batch_sizes": [1, 2]},
}


def problem_of(*changes: tuple[str, Any]) -> PlanProblem:
    """The small problem with some members changed."""
    return read_plan(put(SMALL, *changes), CONTEXT)


def some(chance: random.Random, values: list[Any], most: int) -> list[Any]:
    return sorted(chance.sample(values, chance.randint(1, min(most, len(values)))), key=values.index)


def random_problem(seed: int) -> PlanProblem:
    """A small problem: a few devices, any engine, PP, EP and offload among its axes; no contradiction."""
    chance = random.Random(seed)
    while True:
        try:
            return read_plan(random_request(chance), CONTEXT)
        except InvalidRequest:
            continue


def wider_problem(seed: int) -> PlanProblem:
    """A random problem whose degrees and micro-batches are the search's own, with all three modes of recomputation."""
    chance = random.Random(seed)
    while True:
        request = random_request(chance)
        auto = dict.fromkeys(("tp", "pp", "ep", "micro_batch_sizes"), "auto")
        request["search"] |= {**auto, "recompute": ["none", "selective", "full"]}
        request["hardware"]["max_count"] = chance.choice([16, 32])
        try:
            return read_plan(request, CONTEXT)
        except InvalidRequest:
            continue


def adapter_problem(seed: int) -> PlanProblem:
    """Adapters on a frozen base in 16 or 4 bits under every engine, with all three modes of recomputation."""
    chance = random.Random(seed)
    return problem_of(
        ("/adapter", {"method": "lora", "rank": 8, "base_dtype": chance.choice(["bf16", "nf4"])}),
        ("/engines", ["ddp", "fsdp1", "fsdp2", "deepspeed"]),
        ("/precisions", ["bf16-pure", "bf16-mixed"]),
        ("/search/zero_stages", [0, 2, 3]),
        ("/search/recompute", ["none", "selective", "full"]),
    )


def billed_at_random(problem: PlanProblem, seed: int) -> PlanProblem:
    """The problem with other billing terms at every provider, hourly ones among them."""
    chance = random.Random(seed)
    choices = [(None, None), (1, 60), (60, None), (3600, None), (600, 7200), (36_000, None)]
    terms = {name: chance.choice(choices) for name in sorted({offer.provider for offer in problem.offers})}
    offers = (
        replace(
            offer, billing_period_seconds=terms[offer.provider][0], billing_minimum_seconds=terms[offer.provider][1]
        )
        for offer in problem.offers
    )
    return replace(problem, offers=tuple(offers))


def random_request(chance: random.Random) -> dict[str, Any]:
    layers = chance.choice([4, 8, 12, 32])
    config = {**chance.choice([LLAMA, MIXTRAL]), "num_hidden_layers": layers}
    known = {row.slug for row in CONTEXT.catalog.accelerators.values()}
    sequence = chance.choice([1024, 4096, 8192])
    sequences = chance.choice([4, 8, 12, 16])
    return {
        "model": {"config": config},
        "workload": {"tokens": 10**9, "sequence_length": sequence, "global_batch_tokens": sequences * sequence},
        "hardware": {
            "accelerators": some(chance, sorted(known.intersection(DEVICES)), 1),
            "pricing": chance.choice([["on-demand"], ["on-demand"], ["spot", "reserved"]]),
            "min_count": chance.choice([1, 1, 4]),
            "max_count": chance.choice([4, 8, 16]),
        },
        "engines": some(chance, ["fsdp2", "megatron", "deepspeed", "fsdp1", "ddp", "ideal"], 2),
        "precisions": some(chance, ["bf16-mixed", "bf16-master-fp32grad", "bf16-pure"], 1),
        "optimizers": some(chance, ["adamw", "adamw-8bit-torchao", "sgd"], 1),
        "search": {
            "zero_stages": some(chance, [0, 1, 2, 3], 2),
            "tp": [1, *some(chance, [2, 3, 4, 8], 1)],
            "pp": [1, *some(chance, [2, 4], 1)],
            "cp": some(chance, [1, 2], 1),
            "ep": [1, *some(chance, [2, 4], 1)],
            "micro_batch_sizes": some(chance, [1, 2, 4], 2),
            "recompute": some(chance, ["none", "selective", "full"], 1),
            "offload": some(chance, ["none", "cpu", {"optimizer": "cpu", "parameters": "cpu"}], 1),
        },
        "constraints": {
            "risk": chance.choice(["upper", "expected"]),
            "deadline_hours": chance.choice([None, None, 300]),
            "budget_usd": chance.choice([None, None, 4000]),
        },
        "objective": chance.choice(["cost", "time", "devices"]),
    }
