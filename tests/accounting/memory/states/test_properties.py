"""What holds of every estimate: the ledger adds up, and more of a thing never needs less.

Ten thousand candidates: recipes drawn with a fixed seed, each with a column of layouts that no rule of ours refuses.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.constraints import reasons
from accounting.estimate import estimate
from accounting.ledger import MOMENTS, STEP, Ledger, fill
from accounting.memory import MEMORY_LINES
from accounting.memory.context import Context
from accounting.memory.sharding import Cut, law_of
from accounting.memory.states import STATE_LINES
from accounting.scenario import Layout, Scenario, column
from accounting.vocabulary import Bucket
from planner.errors import InvalidRequest
from tests.accounting.memory.states.scenes import GPT2_MINI, LLAMA_MINI, MODELS, TOY_ODD, scenario

SEED = 20260729
RECIPES = 80
CANDIDATES = 10_000
LLAMA = LLAMA_MINI | {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32_003,
}
MIXTRAL = LLAMA | {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
DRAWN: tuple[dict[str, Any], ...] = (
    {"config": LLAMA},
    {"config": MIXTRAL},
    {"config": GPT2_MINI},
    {"config": TOY_ODD},
    MODELS["lin41"],
    {"parameters": 6_738_415_616},
)
ENGINES = {
    "ddp": (0,),
    "fsdp1": (2, 3),
    "fsdp2": (2, 3),
    "deepspeed": (0, 1, 2, 3),
    "megatron": (0, 1, 2, 3),
    "ideal": (0, 1, 2, 3),
}
PRECISIONS = ("fp32", "bf16-mixed", "fp16-mixed", "bf16-master", "bf16-master-fp32grad", "bf16-pure", "fp8-mixed")
UNQUANTISED = ("sgd", "adamw", "adam", "lion", "ademamix")
OPTIMIZERS = (*UNQUANTISED, "adamw-8bit", "adamw-8bit-torchao", "lion-8bit", "adafactor", "muon")
RECOMPUTES: tuple[Any, ...] = ("none", "selective", "full", {"mode": "full", "every": 2})


def _draw(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def drawn_request(rng: np.random.Generator) -> dict[str, Any]:
    engine = _draw(rng, tuple(ENGINES))
    stage = _draw(rng, ENGINES[engine])
    request: dict[str, Any] = {
        "model": _draw(rng, DRAWN),
        "hardware": {"accelerator": "h100-sxm5-80gb", "count": 1},
        "sharding": {"engine": engine, "zero_stage": stage},
        "precision": _draw(rng, PRECISIONS),
        "optimizer": _draw(rng, OPTIMIZERS),
        "batch": {"sequence_length": 512, "micro_batch_size": 1},
        "recompute": _draw(rng, RECOMPUTES),
        "attention": _draw(rng, ("flash", "sdpa", "eager")),
    }
    if rng.random() < 0.2 and engine == "deepspeed" and stage:
        request["offload"] = {"optimizer": "cpu"}
    if rng.random() < 0.2 and "config" in request["model"] and request["model"]["config"] is LLAMA:
        request["adapter"] = {"method": "lora", "rank": 8}
    return request


def drawn_layout(rng: np.random.Generator, size: int) -> Layout:
    def powers(most: int) -> NDArray[np.int64]:
        return column(2 ** rng.integers(0, most + 1, size))

    tp, cp, pp, shard, copies = powers(2), powers(1), powers(2), powers(5), powers(2)
    shard = np.where(rng.random((size, 1)) < 0.3, 3 * shard, shard)
    return Layout(
        count=tp * cp * pp * shard * copies,
        dp_replicate=copies,
        dp_shard=shard,
        tp=tp,
        cp=cp,
        pp=pp,
        vpp=column(np.ones(size)),
        ep=powers(1),
        etp=column(np.ones(size)),
        sequence_parallel=column(tp > 1, np.bool_),
        sequence_length=128 * powers(4),
        micro_batch_size=powers(2),
        micro_batches=powers(3),
    )


def spread(one: Scenario, layout: Layout) -> Scenario:
    """The recipe of a scenario over other columns, where no rule refuses them."""
    good = np.flatnonzero((reasons(one.recipe, layout) == 0)[:, 0])
    machine = one.machine.take(np.zeros(len(layout.count), dtype=np.int64))
    return replace(one, layout=layout, machine=machine).take(good)


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Valid candidates, 10,000 at least."""
    rng = np.random.default_rng(SEED)
    found: list[Scenario] = []
    total = 0
    while total < CANDIDATES or len(found) < RECIPES:
        try:
            one = scenario(drawn_request(rng))
        except InvalidRequest:
            continue
        some = spread(one, drawn_layout(rng, 600))
        if len(some):
            found.append(some.take(slice(0, 250)))
            total += len(found[-1])
    return tuple(found)


def ledger_of(one: Scenario) -> Ledger:
    return fill(MEMORY_LINES, Context(one))


def held(ledger: Ledger, *buckets: Bucket, moment: Any) -> NDArray[np.int64]:
    total = np.zeros(ledger.shape, dtype=np.int64)
    for row in ledger.rows:
        if row.line.device and row.line.bucket in buckets:
            total = total + row.by_moment.get(moment, 0)
    return total


def test_there_are_ten_thousand_candidates_of_every_engine() -> None:
    assert sum(len(one) for one in scenarios()) >= CANDIDATES
    assert {one.recipe.engine.value for one in scenarios()} == set(ENGINES)


def test_lines_add_up_to_moments_and_buckets_to_the_peak() -> None:
    for one in scenarios():
        ledger = ledger_of(one)
        for moment in MOMENTS:
            by_bucket = [held(ledger, bucket, moment=moment) for bucket in Bucket]
            assert (sum(by_bucket) == ledger.totals[moment]).all()
            assert all((amount >= 0).all() for amount in by_bucket), (one.recipe.engine, moment)
        assert (ledger.peak() == np.maximum.reduce(list(ledger.totals.values()))).all()


def test_answers_add_up_to_the_byte() -> None:
    """Every phase is the sum of its lines, `by_bucket` of the peak: as JSON, a few candidates of every recipe."""
    for one in scenarios():
        few = one.take(np.unique(np.linspace(0, len(one) - 1, 3).astype(np.int64)))
        full = estimate(few)
        for index in range(len(few)):
            memory = full.row(index)["memory"]
            for phase, total in memory["by_phase"].items():
                lines = (line["bytes_by_phase"].get(phase, 0) for line in memory["lines"] if line["device"])
                assert sum(lines) == total
            assert sum(amount or 0 for amount in memory["by_bucket"].values()) == memory["peak_allocated_bytes"]
            assert memory["peak_allocated_bytes"] == memory["by_phase"][memory["peak_phase"]]


def _column_of(one: Scenario, **columns: Any) -> Scenario:
    """One candidate of a scenario repeated with other columns."""
    size = max(len(values) for values in columns.values())
    many = one.take(np.zeros(size, dtype=np.int64))
    layout = replace(many.layout, **{name: column(values) for name, values in columns.items()})
    shape = layout.tp * layout.cp * layout.pp * layout.dp_shard * layout.dp_replicate
    return replace(many, layout=replace(layout, count=shape))


def _states(one: Scenario) -> NDArray[np.int64]:
    """DeepSpeed's stages 1 and 2 without their gradients: a partition reaching into one more tensor keeps it whole."""
    flat = law_of(one.recipe.engine, one.recipe.zero_stage).cut is Cut.FLAT
    lines = tuple(line for line in STATE_LINES if not (flat and line.key == "states.gradients"))
    return fill(lines, Context(one)).totals[STEP].max(axis=1)


@pytest.mark.parametrize("place", range(0, RECIPES, 4))
def test_more_shards_never_hold_more_state(place: int) -> None:
    """But for the padding of a flat group, which is to twice the group's ranks or Megatron's lcm(ranks, 128)."""
    for one in scenarios()[place : place + 4]:
        if one.recipe.optimizer.name not in UNQUANTISED or one.recipe.zero_stage == 0:
            continue
        ways = [1, 2, 3, 4, 6, 8, 16, 48, 64]
        states = _states(_column_of(one, dp_shard=ways))
        padding = np.lcm(np.asarray(ways[1:]), 128) * 2 * 18 if one.recipe.engine in {"deepspeed", "megatron"} else 0
        assert (np.diff(states) <= padding).all(), (one.recipe.engine, one.recipe.zero_stage, states)


@pytest.mark.parametrize("place", range(0, RECIPES, 4))
@pytest.mark.parametrize("name", ["sequence_length", "micro_batch_size"])
def test_more_tokens_never_need_less(place: int, name: str) -> None:
    for one in scenarios()[place : place + 4]:
        if one.recipe.model.architecture is None:
            continue
        ledger = ledger_of(_column_of(one, **{name: [1, 2, 4, 8, 16, 32]}))
        for moment in MOMENTS:
            kept = held(ledger, Bucket.ACTIVATIONS, Bucket.LOGITS_AND_LOSS, moment=moment)
            assert (np.diff(kept, axis=0) >= 0).all(), (one.recipe.engine, moment.name, kept[:, 0])
