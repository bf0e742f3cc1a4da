"""What a request without faults comes to: defaults in words, columns, machine, warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accounting.scenario import Scenario
from accounting.vocabulary import Engine, RecomputeMode, Schedule
from planner.requests import read_estimate
from tests.planner.requests.samples import CONTEXT, ESTIMATE, LLAMA, MINIMAL, put


def scenario_of(*changes: tuple[str, Any], base: dict[str, Any] = MINIMAL) -> Scenario:
    return read_estimate(put(base, *changes), CONTEXT)


def degrees(scenario: Scenario) -> dict[str, int]:
    names = ("count", "dp_replicate", "dp_shard", "tp", "cp", "pp", "vpp", "ep", "etp", "micro_batches")
    return {name: int(getattr(scenario.layout, name)[0, 0]) for name in names}


def said(scenario: Scenario, text: str) -> bool:
    return any(text in sentence for sentence in (*scenario.assumptions, *scenario.warnings))


def test_every_default_of_the_contract_is_taken_and_said() -> None:
    scenario = scenario_of()
    recipe = scenario.recipe
    assert (recipe.engine, recipe.zero_stage, recipe.precision.name) == (Engine.FSDP2, 3, "bf16-mixed")
    assert (recipe.optimizer.name, recipe.recompute.mode, recipe.attention) == ("adamw", RecomputeMode.NONE, "flash")
    assert degrees(scenario) == dict.fromkeys(degrees(scenario), 1)
    for default in ("fsdp2", "stage 3", "bf16-mixed", "adamw", "recompute none", "flash", "node type aws-p5-48xlarge"):
        assert said(scenario, default), default


def test_a_request_that_states_everything_assumes_only_the_price() -> None:
    assert [text.split()[0] for text in scenario_of(base=ESTIMATE).assumptions] == ["priced"]


@pytest.mark.parametrize(
    ("engine", "stage", "replicate", "shard"),
    [("fsdp2", 3, 1, 16), ("ddp", 0, 16, 1), ("megatron", 1, 1, 16), ("ideal", 3, 1, 16), ("deepspeed", 3, 1, 16)],
)
def test_data_parallelism_takes_what_is_left(engine: str, stage: int, replicate: int, shard: int) -> None:
    scenario = scenario_of(("/hardware/count", 32), ("/sharding", {"engine": engine}), ("/parallelism", {"tp": 2}))
    assert scenario.recipe.zero_stage == stage
    assert (degrees(scenario)["dp_replicate"], degrees(scenario)["dp_shard"]) == (replicate, shard)
    assert bool(scenario.layout.sequence_parallel[0, 0])
    assert degrees(scenario)["etp"] == 2


def test_stated_copies_leave_the_rest_to_shards() -> None:
    found = degrees(scenario_of(("/hardware/count", 32), ("/parallelism", {"dp_replicate": 4})))
    assert (found["dp_replicate"], found["dp_shard"]) == (4, 8)


def test_virtual_stages_ask_for_the_interleaved_schedule() -> None:
    changes = (("/hardware/count", 4), ("/parallelism", {"pp": 4, "vpp": 2}))
    assert scenario_of(*changes).recipe.schedule is Schedule.INTERLEAVED


def test_an_uneven_pipeline_is_answered() -> None:
    assert degrees(scenario_of(("/hardware/count", 12), ("/parallelism", {"pp": 12})))["pp"] == 12


def test_the_global_batch_gives_the_accumulation() -> None:
    changes = (("/hardware/count", 8), ("/batch/micro_batch_size", 2), ("/batch/global_batch_size", 64))
    assert degrees(scenario_of(*changes))["micro_batches"] == 4


@pytest.mark.parametrize("length", [8192, 8192.0, 8.192e3])
def test_a_whole_number_may_be_written_as_a_float(length: float) -> None:
    column = scenario_of(("/batch/sequence_length", length)).layout.sequence_length
    assert column.dtype == np.int64
    assert int(column[0, 0]) == 8192


def test_slugs_are_read_whatever_their_case() -> None:
    scenario = scenario_of(("/model", "Llama-3-8B"), ("/hardware/accelerator", "H100-SXM5-80GB"))
    assert scenario.recipe.model.slug == "llama-3-8b"


def test_the_machine_is_the_named_one_with_the_stated_facts_over_it() -> None:
    machine = scenario_of(
        ("/hardware/count", 16),
        ("/hardware/node_type", "aws-p5-48xlarge"),
        ("/hardware/overrides", {"memory_bytes": 10**11, "bf16_tflops": 500, "memory_bandwidth_gbps": 2000}),
        ("/options", {"devices_per_node": 4, "inter_node_gbps": 100}),
    ).machine
    assert int(machine.capacity_bytes[0, 0]) == 10**11
    assert int(machine.devices_per_node[0, 0]) == int(machine.scaleup_domain[0, 0]) == 4
    assert float(machine.inter_bandwidth[0, 0]) == 12.5e9
    assert float(machine.peak_flops[0, 0]) == 500e12
    assert float(machine.memory_bandwidth[0, 0]) == 2e12
    assert machine.offers[0] is not None
    assert machine.offers[0].node_type == "aws-p5-48xlarge"


def test_whole_instances_are_billed() -> None:
    """One device of an eight-device instance costs the instance."""
    one, eight = (
        scenario_of(("/hardware/count", count), ("/hardware/node_type", "aws-p5-48xlarge")).machine for count in (1, 8)
    )
    assert float(one.usd_per_device_hour[0, 0]) == pytest.approx(8 * float(eight.usd_per_device_hour[0, 0]))


def test_a_named_offer_prices_the_run_and_brings_its_machine() -> None:
    offer = next(row for row in CONTEXT.catalog.offers_of("h100-sxm5-80gb") if row.pricing_kind == "spot")
    written = {
        "provider": offer.provider,
        "region": offer.region,
        "instance": offer.instance,
        "pricing": "spot",
        "commitment": offer.commitment,
    }
    machine = scenario_of(("/hardware/offer", written), ("/hardware/count", offer.accelerator_count)).machine
    assert machine.offers == (offer,)
    node = CONTEXT.catalog.node_of_offer(offer)[0]
    assert machine.node_types == (node,)


WARNED: tuple[tuple[str, tuple[tuple[str, Any], ...], str], ...] = (
    ("no master", (("/precision", "bf16-pure"),), "no fp32 master copy"),
    (
        "object without master",
        (("/precision", {"compute": "fp16", "parameters": "fp16"}),),
        "no fp32 master copy",
    ),
    (
        "gradients as state",
        (("/precision", {"compute": "bf16", "parameters": "fp32", "gradients": None}),),
        "gradients are a bucket of their own",
    ),
    ("activations left out", (("/model", {"parameters": 7 * 10**9}),), "activations, logits and time are null"),
    ("tensors", (("/model", {"tensors": [{"name": "w", "shape": [4, 4]}]}),), "a list of tensors"),
    ("shapes", (("/model", {"parameters": 7}), ("/optimizer", "adafactor")), "depend on the shapes"),
    ("8 bit", (("/optimizer", "adamw-8bit"),), "noise"),
    ("adafactor", (("/optimizer", "adafactor"),), "rank-1"),
    ("slow link", (("/hardware/count", 16), ("/options/inter_node_gbps", 100)), "ZeRO-3 gathers all weights"),
    ("no bf16", (("/hardware/accelerator", "t4"),), "no bf16 units"),
    ("fp8 on A100", (("/hardware/accelerator", "a100-sxm4-80gb"), ("/precision", "fp8-mixed")), "no fp8 rate"),
    ("no capacity", (("/hardware/accelerator", "rtx-pro-4500-blackwell"),), "capacity of rtx-pro-4500-blackwell"),
    ("megatron autocast", (("/sharding/engine", "megatron"),), "no autocast"),
    ("shards of one", (("/hardware/count", 8), ("/parallelism", {"dp_replicate": 8, "dp_shard": 1})), "group of one"),
    ("vpp alone", (("/parallelism", {"vpp": 2}),), "vpp changes nothing"),
    ("bubble", (("/hardware/count", 8), ("/parallelism", {"pp": 8})), "bubble"),
    ("other engine's knob", (("/options/overlap_comm", True),), "options.overlap_comm changes nothing"),
    ("adapter's knob", (("/options/modules_to_save", ["lm_head"]),), "it needs an adapter"),
    ("no matrix", (("/optimizer", "muon"), ("/sharding/engine", "fsdp1")), "empty parameter list"),
    ("flat shards", (("/optimizer", "soap"), ("/sharding/engine", "fsdp1")), "whole matrices"),
)


@pytest.mark.parametrize(("changes", "text"), [case[1:] for case in WARNED], ids=[case[0] for case in WARNED])
def test_a_pitfall_is_a_warning(changes: tuple[tuple[str, Any], ...], text: str) -> None:
    scenario = scenario_of(*changes)
    assert any(text in warning for warning in scenario.warnings), scenario.warnings


@pytest.mark.parametrize(("optimizer", "warned"), [("adamw-8bit", True), ("adamw-8bit-torchao", False)])
def test_an_optimizer_that_stops_under_the_engine_is_counted_and_said(optimizer: str, warned: bool) -> None:
    assert said(scenario_of(("optimizer", optimizer)), "got mixed torch.Tensor and DTensor") is warned


def test_a_sound_request_has_no_warning() -> None:
    assert scenario_of(base=ESTIMATE).warnings == ()


def test_a_precision_object_that_equals_a_preset_is_the_preset() -> None:
    written = {
        "compute": "bf16",
        "parameters": "bf16",
        "gradients": "fp32",
        "master_weights": "fp32",
        "reduce": "fp32",
    }
    assert scenario_of(("/precision", written)).recipe.precision.name == "bf16-master-fp32grad"


def test_an_inline_config_and_its_slug_are_the_same_model() -> None:
    inline = scenario_of(("/model", {"config": LLAMA})).recipe.model
    assert inline.parameters == scenario_of().recipe.model.parameters == 8_030_261_248
