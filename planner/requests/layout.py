"""Degrees and batch: `parallelism`, `hardware.count` and `batch` to the layout's columns, defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from accounting.scenario import Layout, column
from accounting.vocabulary import Engine
from planner.requests.notes import Notes

DEFAULT_STAGES: Mapping[Engine, int] = {
    Engine.DDP: 0,
    Engine.FSDP1: 3,
    Engine.FSDP2: 3,
    Engine.DEEPSPEED: 3,
    Engine.MEGATRON: 1,
    Engine.IDEAL: 3,
}


@dataclass(frozen=True, slots=True)
class Degrees:
    count: int
    dp_replicate: int
    dp_shard: int
    tp: int
    cp: int
    pp: int
    vpp: int
    ep: int
    etp: int
    sequence_parallel: bool


def read_sharding(given: Mapping[str, Any], notes: Notes) -> tuple[Engine, int]:
    """(engine, ZeRO stage)."""
    if "engine" not in given:
        notes.assume("engine fsdp2")
    engine = Engine(given.get("engine", Engine.FSDP2))
    if "zero_stage" not in given:
        notes.assume(f"ZeRO stage {DEFAULT_STAGES[engine]}, {engine}'s default")
    return engine, int(given.get("zero_stage", DEFAULT_STAGES[engine]))


def read_degrees(given: Mapping[str, Any], count: int, zero_stage: int, notes: Notes) -> Degrees:
    """The degrees; data parallelism takes what the others leave of the count."""
    tp, cp, pp = (int(given.get(name, 1)) for name in ("tp", "cp", "pp"))
    replicate, shard = given.get("dp_replicate"), given.get("dp_shard")
    free = "dp_replicate" if zero_stage == 0 and replicate is None else "dp_shard"
    taken = prod((tp, cp, pp, replicate or 1, shard or 1))
    left = count // taken if count % taken == 0 else 1
    if free == "dp_replicate" and shard is None:
        replicate, shard = left, 1
        notes.assume(f"dp_replicate {left}: what tp, cp and pp leave of {count} devices")
    elif replicate is None and shard is not None:
        # Only a stage without sharding has copies to fill up; elsewhere one group is the default.
        replicate = left if free == "dp_replicate" else 1
        notes.assume(f"dp_replicate {replicate}")
    elif shard is None:
        replicate, shard = replicate or 1, left if zero_stage else 1
        notes.assume(f"dp_shard {shard}: what the other degrees leave of {count} devices")
    if "sequence_parallel" not in given and tp > 1:
        notes.assume("sequence parallelism beside tensor parallelism")
    return Degrees(
        count=count,
        dp_replicate=int(replicate or 1),
        dp_shard=int(shard or 1),
        tp=tp,
        cp=cp,
        pp=pp,
        vpp=int(given.get("vpp", 1)),
        ep=int(given.get("ep", 1)),
        etp=int(given.get("etp", tp)),
        sequence_parallel=bool(given.get("sequence_parallel", tp > 1)),
    )


def read_layout(degrees: Degrees, batch: Mapping[str, Any], notes: Notes) -> Layout:
    """The columns, N = 1. A global batch that the ranks cannot share evenly is a fault."""
    data_parallel = degrees.dp_replicate * degrees.dp_shard
    micro = int(batch.get("micro_batch_size", 1))
    if "micro_batch_size" not in batch:
        notes.assume("micro_batch_size 1")
    micro_batches, wanted = 1, batch.get("global_batch_size")
    if wanted is None:
        notes.assume(f"global batch {data_parallel * micro}: one micro-batch a rank and step")
    elif wanted % (data_parallel * micro):
        _uneven_batch(wanted, data_parallel, micro, notes)
    else:
        micro_batches = wanted // (data_parallel * micro)
    return Layout(
        **{
            name: column(getattr(degrees, name))
            for name in ("count", "dp_replicate", "dp_shard", "tp", "cp", "pp", "vpp", "ep", "etp")
        },
        sequence_parallel=column(degrees.sequence_parallel and degrees.tp > 1, np.bool_),
        sequence_length=column(int(batch.get("sequence_length", 1))),
        micro_batch_size=column(micro),
        micro_batches=column(micro_batches),
    )


def _uneven_batch(wanted: int, data_parallel: int, micro: int, notes: Notes) -> None:
    if notes.faults.touches("/parallelism") or notes.faults.touches("/batch"):
        return
    share = data_parallel * micro
    below, above = wanted // share * share, (wanted // share + 1) * share
    near = f"{below} or {above}" if below else f"{above}"
    notes.faults.add(
        "/batch/global_batch_size",
        "not_a_multiple",
        f"{wanted} sequences are no multiple of {data_parallel} data-parallel ranks × micro_batch_size {micro}; "
        f"nearest: {near}",
    )
