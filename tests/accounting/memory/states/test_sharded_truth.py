"""Bytes of every rank under every engine against what the real libraries held: 912 rows, to the byte."""

from __future__ import annotations

import csv
import re
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.estimate import estimate
from accounting.facts.optimizers import OPTIMIZERS
from accounting.memory.ranks import RankStates, states_by_rank
from accounting.memory.zero_redundancy import owners
from accounting.optimizer_laws import TensorView, state_bytes
from tests.accounting.memory.states.scenes import MODELS, request, scenario

TRUTH = Path(__file__).parents[3] / "truth" / "sharded.csv"
ROWS = tuple(csv.DictReader(TRUTH.read_text().splitlines()))
ROUNDS = tuple({(row["stage"], row["model"], int(row["world"])) for row in ROWS})
OPTIMIZERS_OF = {"Muon": "muon", "torchao": "adamw-8bit-torchao", "bitsandbytes": "adamw-8bit"}
DEEPSPEED_KNOBS = (
    "reduce_bucket_size",
    "allgather_bucket_size",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "sub_group_size",
)


def measured(stage: str, model: str, world: int) -> list[tuple[int, int, int]]:
    rows = [r for r in ROWS if (r["stage"], r["model"], int(r["world"])) == (stage, model, world)]
    rows.sort(key=lambda row: int(row["rank"]))
    return [(int(row["parameters"]), int(row["gradients"]), int(row["optimizer"])) for row in rows]


def request_of(stage: str, model: str, world: int) -> dict[str, Any]:
    """The request for a label of the table."""
    if stage.startswith("DDP"):
        options = {"gradient_as_bucket_view": True} if "bucket_view" in stage else {}
        return request(MODELS[model], world, "ddp", 0, options=options)
    if stage.startswith("FSDP"):
        return _fsdp(stage, model, world)
    return _deepspeed(stage, model, world)


def _fsdp(stage: str, model: str, world: int) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "use_orig_params=False" in stage:
        options["use_orig_params"] = False
    if found := re.search(r"reshard_after_forward=(True|False)", stage):
        options["reshard_after_forward"] = found[1] == "True"
    unsynced = "no_sync" in stage or "gradient_sync(False)" in stage
    if unsynced:
        options["no_sync"] = True
    precision = "bf16-mixed" if "MixedPrecision" in stage else "bf16-pure" if "pure bf16" in stage else "fp32"
    optimizer = next((name for words, name in OPTIMIZERS_OF.items() if words in stage), "adamw")
    return request(
        MODELS[model],
        world,
        stage[:5].lower(),
        2 if "SHARD_GRAD_OP" in stage else 3,
        replicate="NO_SHARD" in stage,
        micro_batches=2 if unsynced else 1,
        precision=precision,
        optimizer=optimizer,
        options=options,
    )


def _deepspeed(stage: str, model: str, world: int) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for knob in DEEPSPEED_KNOBS:
        if found := re.search(rf"\b{knob}=(\d+)", stage):
            options[knob] = int(found[1])
    if "grad_accum_dtype=fp32" in stage:
        options["grad_accum_dtype"] = "fp32"
    if "overlap_comm" in stage:
        options["overlap_comm"] = True
    word = stage.split()[1].strip(",")
    return request(
        MODELS[model],
        world,
        "deepspeed",
        int(stage[5]),
        micro_batches=2 if "GAS=2" in stage else 1,
        precision=word if word == "fp32" else f"{word}-master",
        offload={"optimizer": "cpu"} if "offload" in stage else {},
        options=options,
    )


@cache
def predicted(stage: str, model: str, world: int) -> RankStates:
    return states_by_rank(scenario(request_of(stage, model, world)))


def predicted_ranks(stage: str, model: str, world: int) -> list[tuple[int, int, int]]:
    """(parameters, gradients, optimizer) as the table counts them: master and host scalars with the optimizer."""
    held = predicted(stage, model, world)
    gradients, host = held.gradients, held.host
    if "offload" in stage:
        gradients = host_line(stage, model, world, "host.gradients")
        host = host_line(stage, model, world, "host.states") + host_line(stage, model, world, "host.scalars")
    optimizer = held.optimizer_states + held.master_weights + host
    ranks = range(len(held.parameters) if len(held.parameters) == world else 1)
    found = [(int(held.parameters[r]), int(gradients[r]), int(optimizer[r])) for r in ranks]
    return found if len(found) == world else found * world


def host_line(stage: str, model: str, world: int, key: str) -> Any:
    ledger = estimate(scenario(request_of(stage, model, world))).ledger
    row = next(row for row in ledger.rows if row.line.key == key)
    return np.broadcast_to(next(iter(row.by_moment.values())), (world, 1))[:, 0]


def redundancy(model: str, world: int) -> list[tuple[int, int, int]]:
    """DDP with ZeroRedundancyOptimizer: whole parameters and gradients, the states of owned tensors."""
    shapes = [
        tensor.shape
        for tensor, times in scenario(request(MODELS[model], world, "ddp", 0)).recipe.inventory.all_tensors()
        for _ in range(tensor.count * times)
    ]
    owner = owners([prod(shape) for shape in shapes], world)
    held = [0] * world
    for shape, rank in zip(shapes, owner, strict=True):
        view = TensorView(dims=tuple(np.asarray(size, dtype=np.int64) for size in shape))
        held[rank] += int(state_bytes(OPTIMIZERS["adamw"], {}, view, 4).total)
    whole = 4 * sum(prod(shape) for shape in shapes)
    return [(whole, whole, bytes_held) for bytes_held in held]


def test_the_table_is_whole() -> None:
    assert len(ROWS) == 912
    assert len(ROUNDS) == len({(r["stage"], r["model"], r["world"]) for r in ROWS})


@pytest.mark.parametrize(("stage", "model", "world"), sorted(ROUNDS))
def test_every_rank_holds_what_was_measured(stage: str, model: str, world: int) -> None:
    ours = redundancy(model, world) if "ZeroRedundancy" in stage else predicted_ranks(stage, model, world)
    assert ours == measured(stage, model, world)


@pytest.mark.parametrize(
    ("stage", "model", "world"),
    sorted(row for row in ROUNDS if "ZeroRedundancy" not in row[0] and "offload" not in row[0]),
)
def test_the_answer_speaks_of_a_rank_that_holds_most(stage: str, model: str, world: int) -> None:
    """Parameters and gradients of the answer's lines are the largest of the group."""
    answer = estimate(scenario(request_of(stage, model, world))).row(0)["memory"]
    lines = {line["formula"]: line["bytes_by_phase"]["optimizer_step"] for line in answer["lines"]}
    parameters = lines["states.parameters"] + lines.get("buffers.persistent_parameters", 0)
    truth = measured(stage, model, world)
    assert parameters == max(row[0] for row in truth)
    assert lines["states.gradients"] == max(row[1] for row in truth)
    rank = answer["worst_rank"]["data_parallel_rank"]
    assert truth[rank][1] == lines["states.gradients"]


@pytest.mark.parametrize(("stage", "model", "world"), sorted(row for row in ROUNDS if row[0] == "DDP, fp32, AdamW"))
def test_ddp_holds_gradients_twice_unless_they_are_views(stage: str, model: str, world: int) -> None:
    def buckets(label: str) -> int:
        lines = estimate(scenario(request_of(label, model, world))).row(0)["memory"]["lines"]
        return sum(line["bytes_by_phase"]["backward"] for line in lines if line["formula"] == "buffers.reduce_buckets")

    assert buckets(stage) == measured(stage, model, world)[0][1]
    assert buckets("DDP, fp32, gradient_as_bucket_view, AdamW") == 0
