"""Sanity laws under hypothesis: any engine, stage, schedule, recomputation and offload, on any layout it can have.

A longer search: `SANITY_EXAMPLES=2000 pytest tests/accounting/step_time/test_sanity.py`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accounting.cost import Billing, Interruptions, billed, run_cost
from accounting.facts.precisions import PRESETS
from accounting.options import Options
from accounting.partition import partition_of
from accounting.scenario import Offload, Recompute, Scenario, column
from accounting.step_time import Timing, step_time
from accounting.vocabulary import Attention, Engine, Place, RecomputeMode, Schedule
from tests.accounting.step_time.scenes import DENSE, H100, MIXTURE, scene

EXAMPLES = settings(max_examples=int(os.environ.get("SANITY_EXAMPLES", "60")), deadline=None)
STAGES = {
    Engine.DDP: (0,),
    Engine.FSDP1: (2, 3),
    Engine.FSDP2: (2, 3),
    Engine.DEEPSPEED: (0, 1, 2, 3),
    Engine.MEGATRON: (0, 1),
    Engine.IDEAL: (0, 1, 2, 3),
}
PIPELINES = (Engine.MEGATRON, Engine.IDEAL)
CHUNKS = {
    Schedule.ONE_F_ONE_B: (1,),
    Schedule.GPIPE: (1,),
    Schedule.INTERLEAVED: (2, 4),
    Schedule.ZERO_BUBBLE: (1, 2),
    Schedule.DUALPIPE: (1, 2),
}
NVIDIA = Options(fused_norm=True)
SLACK = 1e-9
ENDS = 0.005
"""Where another stage becomes the slowest, what happens once a step there may be less."""
OFFLOADS = (
    Offload(optimizer=Place.CPU),
    Offload(optimizer=Place.CPU, parameters=Place.CPU),
    Offload(activations=Place.CPU),
    Offload(optimizer=Place.CPU, parameters=Place.CPU, activations=Place.CPU),
)


@st.composite
def asked(draw: st.DrawFn, *, pipelines: bool | None = None) -> dict[str, Any]:
    """Arguments of `scene`: a recipe and the degrees of one layout; with a pipeline, without one, or either (None)."""
    engine = draw(st.sampled_from(PIPELINES if pipelines else list(STAGES)))
    stage = draw(st.sampled_from((0, 1) if pipelines else STAGES[engine]))
    deep = pipelines is not False and engine in PIPELINES and stage < 2
    host = stage == 3 and engine in (Engine.DEEPSPEED, Engine.FSDP2)
    recompute = draw(st.sampled_from(list(RecomputeMode)))
    pp = draw(st.sampled_from([2, 4, 8] if pipelines else [1, 2, 4, 8])) if deep else 1
    schedule = draw(st.sampled_from(list(Schedule))) if pp > 1 else Schedule.ONE_F_ONE_B
    shard, replicate = draw(st.sampled_from([1, 2, 4, 8, 32, 128])), draw(st.sampled_from([1, 2, 4]))
    if stage == 0:
        shard, replicate = 1, shard * replicate
    cutting = engine in (*PIPELINES, Engine.FSDP2)
    model = draw(st.sampled_from([DENSE, MIXTURE]))
    return {
        "model": model,
        "recipe": {
            "engine": engine,
            "zero_stage": stage,
            "precision": PRESETS[draw(st.sampled_from(["bf16-master", "bf16-mixed", "fp32", "bf16-pure"]))],
            "attention": draw(st.sampled_from(list(Attention))),
            "recompute": Recompute(mode=recompute),
            "schedule": schedule,
            "offload": draw(st.sampled_from([Offload(), *OFFLOADS])) if host else Offload(),
        },
        "dp_shard": shard,
        "dp_replicate": replicate,
        "tp": draw(st.sampled_from([1, 2, 4, 8, 16])) if cutting else 1,
        "cp": draw(st.sampled_from([1, 1, 2, 4])) if cutting else 1,
        "ep": draw(st.sampled_from([ep for ep in (1, 2, 4) if shard * replicate % ep == 0])) if model is MIXTURE else 1,
        "pp": pp,
        "vpp": draw(st.sampled_from(CHUNKS[schedule])),
        "sequence_length": draw(st.sampled_from([512, 2048, 8192, 32768])),
        "micro_batch_size": draw(st.sampled_from([1, 2, 4])),
        "micro_batches": draw(st.sampled_from([1, 2, 8, 32])),
    }


def timing_of(scenario: Scenario) -> Timing:
    return step_time(scenario, partition_of(scenario))


def step(arguments: dict[str, Any], **changes: Any) -> float:
    return float(timing_of(scene(**(arguments | changes))).step_seconds[0, 0])


def machined(scenario: Scenario, **columns: Any) -> float:
    changed = replace(scenario, machine=replace(scenario.machine, **columns))
    return float(timing_of(changed).step_seconds[0, 0])


@EXAMPLES
@given(asked(), st.sampled_from(["intra_bandwidth", "inter_bandwidth", "pcie_bandwidth"]), st.floats(0.01, 0.999))
def test_a_slower_link_is_never_faster(arguments: dict[str, Any], link: str, factor: float) -> None:
    scenario = scene(**arguments)
    before = machined(scenario)
    assert machined(scenario, **{link: getattr(scenario.machine, link) * factor}) >= before * (1 - ENDS)


@EXAMPLES
@given(asked(), st.sampled_from(["bf16_tflops", "memory_bandwidth_bytes_per_second"]), st.floats(0.2, 0.999))
def test_a_slower_device_is_never_faster(arguments: dict[str, Any], name: str, factor: float) -> None:
    slow = replace(H100, **{name: getattr(H100, name) * factor})
    assert step(arguments, accelerator=slow) >= step(arguments) * (1 - ENDS)


@EXAMPLES
@given(asked())
def test_nothing_runs_above_the_peak(arguments: dict[str, Any]) -> None:
    timing = timing_of(scene(**arguments))
    assert 0 < timing.hfu[0, 0] < 1
    assert timing.mfu[0, 0] <= timing.hfu[0, 0] * (1 + SLACK)
    assert min(float(line.seconds[0, 0]) for line in timing.lines) >= 0


@EXAMPLES
@given(asked(), st.sampled_from(["sequence_length", "micro_batch_size", "micro_batches"]), st.sampled_from([2, 4]))
def test_more_work_is_never_faster(arguments: dict[str, Any], name: str, factor: int) -> None:
    assert step(arguments, **{name: arguments[name] * factor}) >= step(arguments) * (1 - SLACK)


@EXAMPLES
@given(asked(pipelines=False))
def test_more_replicas_on_the_same_batch_do_no_less_work_in_total(arguments: dict[str, Any]) -> None:
    assume(arguments["micro_batches"] % 2 == 0)
    degree = "dp_replicate" if arguments["recipe"]["zero_stage"] == 0 else "dp_shard"
    more = {degree: 2 * arguments[degree], "micro_batches": arguments["micro_batches"] // 2}
    assume(arguments["recipe"]["offload"] == Offload())
    # Wider shards really spare copies of them traffic, and offloading shares a node's host: neither is this law's.
    assume(arguments["recipe"]["zero_stage"] == 0 or arguments["dp_replicate"] == 1)
    assert 2 * without_accumulation(arguments | more) >= without_accumulation(arguments) * (1 - ENDS)


@EXAMPLES
@given(asked(pipelines=True), st.sampled_from(list(Schedule)), st.booleans())
def test_a_deeper_pipeline_does_no_less_work_in_total(
    arguments: dict[str, Any], schedule: Schedule, alone: bool
) -> None:
    # Interleaving tells NVIDIA's Megatron from its descendants, which have other constants.
    recipe = arguments["recipe"] | {"schedule": schedule, "options": NVIDIA}
    deep = arguments | {"recipe": recipe, "vpp": CHUNKS[schedule][-1]}
    flat = arguments | {"recipe": recipe | {"schedule": Schedule.ONE_F_ONE_B}, "pp": 1, "vpp": 1}
    before, times = (step(flat), deep["pp"]) if alone or deep["pp"] == 2 else (step(deep, pp=deep["pp"] // 2), 2)
    assert times * step(deep) >= before * (1 - ENDS)


@EXAMPLES
@given(asked(pipelines=True), st.sampled_from([2, 4]))
def test_bubbles_shrink_as_their_schedules_say(arguments: dict[str, Any], chunks: int) -> None:
    def bubble(schedule: Schedule, virtual: int) -> float:
        made = scene(**(arguments | {"recipe": arguments["recipe"] | {"schedule": schedule}, "vpp": virtual}))
        lines = {line.key: float(line.seconds[0, 0]) for line in timing_of(made).lines}
        return lines["pipeline.bubble"]

    classic, gpipe = bubble(Schedule.ONE_F_ONE_B, 1), bubble(Schedule.GPIPE, 1)
    assert classic == gpipe
    assert bubble(Schedule.DUALPIPE, 1) <= bubble(Schedule.ZERO_BUBBLE, 1) <= classic
    # Chunks are shorter, but each has exchanges with its neighbours of its own.
    few, more = bubble(Schedule.INTERLEAVED, chunks), bubble(Schedule.INTERLEAVED, 2 * chunks)
    assert few / 2 * (1 - SLACK) <= more


def without_accumulation(arguments: dict[str, Any]) -> float:
    """Seconds but for adding gradients up, which fewer micro-batches a device really save."""
    timing = timing_of(scene(**arguments))
    added = next(line for line in timing.lines if line.key == "gradients.accumulate")
    return float((timing.step_seconds - added.seconds)[0, 0])


@EXAMPLES
@given(
    price=st.floats(0.01, 100),
    more=st.floats(1, 10),
    seconds=st.floats(0.01, 1000),
    tokens=st.integers(1, 10**13),
    period=st.sampled_from([0.0, 1 / 3600, 1 / 60, 1.0, 24.0]),
    often=st.floats(0, 0.01),
)
def test_dollars_never_fall_where_the_price_or_the_step_rises(
    price: float, more: float, seconds: float, tokens: int, period: float, often: float
) -> None:
    def usd(each: float, long: float) -> float:
        cost = run_cost(
            step_seconds=column(long, float),
            tokens_per_step=column(10**6),
            count=column(64),
            usd_per_device_hour=column(each, float),
            power_watts=column(700.0, float),
            tokens=tokens,
            interruptions=Interruptions(preemptions_per_device_hour=often),
        )
        return float(billed(cost, Billing(column(period, float), column(0.0, float)), tokens).usd[0, 0])

    here = usd(price, seconds)
    assert not np.isnan(here)
    assert usd(price * more, seconds) >= here * (1 - SLACK)
    assert usd(price, seconds * more) >= here * (1 - SLACK)
