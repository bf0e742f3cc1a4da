"""Every kind of fault of an estimate request, at its pointer, and several at once."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import InvalidRequest
from planner.requests import read_estimate
from tests.planner.requests.samples import CONTEXT, ESTIMATE, LLAMA, REMOVED, put


def faults_of(payload: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as caught:
        read_estimate(payload, CONTEXT)
    assert caught.value.http_status == 422
    assert all(fault.detail for fault in caught.value.faults)
    return [(fault.pointer, fault.code) for fault in caught.value.faults]


NOT_COUNTS: tuple[Any, ...] = (0, -1, 1.5, True, "8", "eight", [1], {}, 10**30, 1e308, float("inf"), float("nan"))
COUNTS = (
    "/hardware/count",
    "/parallelism/dp_replicate",
    "/parallelism/dp_shard",
    "/parallelism/tp",
    "/parallelism/cp",
    "/parallelism/pp",
    "/parallelism/vpp",
    "/parallelism/ep",
    "/parallelism/etp",
    "/batch/sequence_length",
    "/batch/micro_batch_size",
    "/batch/global_batch_size",
)


@pytest.mark.parametrize("pointer", COUNTS)
@pytest.mark.parametrize("value", NOT_COUNTS, ids=repr)
def test_a_count_of_the_wrong_type_or_size_is_a_fault_there(pointer: str, value: Any) -> None:
    assert pointer in [found for found, _ in faults_of(put(ESTIMATE, (pointer, value)))]


WORDS = ("/sharding/engine", "/precision", "/optimizer", "/recompute", "/attention", "/offload/optimizer")


@pytest.mark.parametrize("pointer", WORDS)
@pytest.mark.parametrize("value", ["nope", 7.5, [], "A" * 100_000, "\0", "\ud83d"], ids=lambda value: repr(value)[:12])
def test_a_word_outside_its_list_is_a_fault_there(pointer: str, value: Any) -> None:
    assert pointer in [found for found, _ in faults_of(put(ESTIMATE, (pointer, value)))]


@pytest.mark.parametrize("pointer", ["/hardware", "/parallelism", "/sharding", "/batch", "/offload", "/options"])
@pytest.mark.parametrize("value", [[], "x", 5, None])
def test_a_group_that_is_no_object_is_a_fault_there(pointer: str, value: Any) -> None:
    assert (pointer, "wrong_type") in faults_of(put(ESTIMATE, (pointer, value)))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"config": []},
        {"parameters": -1},
        {"parameters": 0},
        {"parameters": 1.5},
        {"parameters": "7e9"},
        {"parameters": True},
        {"nothing": 1},
        {"config": LLAMA, "parameters": 7},
        {"config": {**LLAMA, "num_key_value_heads": 5}},
        {"tensors": []},
        {"tensors": [{"name": "w", "shape": [0]}]},
        {"architecture": {"family": "llama"}},
        [],
        5,
        True,
        None,
        "",
        "llama-2-7",
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_model_that_cannot_be_read_is_a_fault_at_or_below_it(value: Any) -> None:
    assert any(pointer.startswith("/model") for pointer, _ in faults_of(put(ESTIMATE, ("/model", value))))


MEANING: tuple[tuple[str, tuple[tuple[str, Any], ...], str, str], ...] = (
    ("product", (("/parallelism/dp_shard", 3),), "/parallelism", "product_mismatch"),
    ("unknown member", (("/tensor_parallel", 8),), "/tensor_parallel", "unknown_member"),
    ("unknown option", (("/options/reduce_buckets", 8),), "/options/reduce_buckets", "unknown_member"),
    ("odd name", (("/a\0b", 8),), "", "unknown_member"),
    ("missing", (("/hardware/accelerator", REMOVED),), "/hardware/accelerator", "required"),
    ("unknown card", (("/hardware/accelerator", "h1000"),), "/hardware/accelerator", "unknown_name"),
    ("ambiguous card", (("/hardware/accelerator", "A100"),), "/hardware/accelerator", "ambiguous_name"),
    ("unknown node", (("/hardware/node_type", "aws-p99"),), "/hardware/node_type", "unknown_name"),
    ("other card's node", (("/hardware/node_type", "aws-p4d-24xlarge"),), "/hardware/node_type", "node_mismatch"),
    (
        "unknown offer",
        (("/hardware/offer", {"provider": "aws", "region": "moon", "instance": "p5.48xlarge"}),),
        "/hardware/offer",
        "unknown_name",
    ),
    (
        "tp",
        (("/parallelism/tp", 3), ("/parallelism/dp_shard", 21), ("/hardware/count", 63)),
        "/parallelism/tp",
        "not_a_divisor",
    ),
    (
        "sequence parallel",
        (("/parallelism/tp", 2), ("/parallelism/dp_shard", 32), ("/batch/sequence_length", 4095)),
        "/batch/sequence_length",
        "not_a_divisor",
    ),
    (
        "ulysses",
        (("/parallelism/cp", 64), ("/parallelism/dp_shard", 1), ("/options/cp_comm_type", "a2a")),
        "/options/cp_comm_type",
        "not_a_divisor",
    ),
    ("no experts", (("/parallelism/ep", 7),), "/parallelism/ep", "no_experts"),
    ("experts", (("/model", "mixtral-8x7b"), ("/parallelism/ep", 3)), "/parallelism/ep", "not_a_divisor"),
    (
        "expert group",
        (("/model", "mixtral-8x7b"), ("/parallelism/ep", 8), ("/parallelism/etp", 3)),
        "/parallelism/ep",
        "not_a_divisor",
    ),
    ("stages", (("/parallelism/pp", 64), ("/parallelism/dp_shard", 1)), "/parallelism/pp", "more_stages_than_layers"),
    (
        "virtual stages",
        (("/parallelism/pp", 16), ("/parallelism/vpp", 4), ("/parallelism/dp_shard", 4)),
        "/parallelism/vpp",
        "more_stages_than_layers",
    ),
    (
        "pipeline of a count",
        (("/model", {"parameters": 7}), ("/parallelism/pp", 2), ("/parallelism/dp_shard", 32)),
        "/parallelism/pp",
        "pipeline_needs_layers",
    ),
    ("layout length", (("/pipeline/layout", [16, 16]),), "/pipeline/layout", "layout_length"),
    ("layout sum", (("/pipeline/layout", [31]),), "/pipeline/layout", "layout_sum"),
    (
        "schedule",
        (("/pipeline/schedule", "interleaved"), ("/parallelism/pp", 2), ("/parallelism/dp_shard", 32)),
        "/pipeline/schedule",
        "schedule_mismatch",
    ),
    ("global batch", (("/batch/global_batch_size", 63),), "/batch/global_batch_size", "not_a_multiple"),
    ("mean length", (("/batch/mean_sequence_length", 5000),), "/batch/mean_sequence_length", "out_of_range"),
    ("ddp stage", (("/sharding", {"engine": "ddp", "zero_stage": 2}),), "/sharding/zero_stage", "stage_unsupported"),
    ("fsdp stage", (("/sharding/zero_stage", 1),), "/sharding/zero_stage", "stage_unsupported"),
    ("sharded ddp", (("/sharding", {"engine": "ddp"}),), "/parallelism/dp_shard", "nothing_sharded"),
    ("megatron fsdp", (("/sharding", {"engine": "megatron", "zero_stage": 3}),), "/precision", "precision_unsupported"),
    (
        "deepspeed pipeline",
        (
            ("/sharding", {"engine": "deepspeed", "zero_stage": 2}),
            ("/parallelism/pp", 2),
            ("/parallelism/dp_shard", 32),
        ),
        "/sharding/zero_stage",
        "pipeline_with_sharded_gradients",
    ),
    ("tpu", (("/hardware", {"accelerator": "tpu-v5p", "count": 64}),), "/sharding/engine", "engine_unsupported"),
    (
        "step in backward",
        (("/options/optimizer_in_backward", True), ("/batch/global_batch_size", 128)),
        "/options/optimizer_in_backward",
        "step_in_backward_with_accumulation",
    ),
    ("too large", (("/batch/sequence_length", 1 << 27), ("/attention", "eager")), "/batch", "too_large"),
    ("nvme", (("/offload/optimizer", "nvme"),), "/offload/optimizer", "engine_unsupported"),
    (
        "parameters off at stage 2",
        (("/sharding", {"engine": "deepspeed", "zero_stage": 2}), ("/offload/parameters", "cpu")),
        "/offload/parameters",
        "engine_unsupported",
    ),
    ("unknown optimizer", (("/optimizer", "adamx"),), "/optimizer", "unknown_name"),
    ("nameless optimizer", (("/optimizer", {"momentum": 0.9}),), "/optimizer/name", "required"),
    ("optimizer option", (("/optimizer", {"name": "sgd", "beta3": 0.9}),), "/optimizer/beta3", "unknown_member"),
    ("optimizer bound", (("/optimizer", {"name": "sgd", "momentum": 2}),), "/optimizer/momentum", "out_of_range"),
    ("optimizer value", (("/optimizer", {"name": "sgd", "momentum": 10**400}),), "/optimizer/momentum", "wrong_type"),
    ("nesterov alone", (("/optimizer", {"name": "sgd", "nesterov": True}),), "/optimizer/nesterov", "contradiction"),
    (
        "recompute member",
        (("/recompute", {"mode": "full", "modules": ["mlp"]}),),
        "/recompute/modules",
        "contradiction",
    ),
    ("recompute mode", (("/recompute", {"every": 1}),), "/recompute/mode", "required"),
    ("adapter rank", (("/adapter", {"method": "lora", "rank": 10**12}),), "/adapter/rank", "out_of_range"),
    ("adapter targets", (("/adapter", {"method": "lora", "targets": "x"}),), "/adapter/targets", "unknown_value"),
    (
        "adapter module",
        (("/adapter", {"method": "lora", "targets": ["x_proj"]}),),
        "/adapter/targets/0",
        "unknown_module",
    ),
    ("qlora base", (("/adapter", {"method": "qlora", "base_dtype": "bf16"}),), "/adapter/base_dtype", "contradiction"),
    (
        "qlora zero-3",
        (("/sharding/engine", "deepspeed"), ("/adapter", {"method": "qlora"})),
        "/adapter/base_dtype",
        "engine_unsupported",
    ),
    (
        "adapter of a count",
        (("/model", {"parameters": 7}), ("/adapter", {"method": "lora"})),
        "/adapter",
        "needs_shapes",
    ),
    ("precision member", (("/precision", {"compute": "bf16"}),), "/precision/parameters", "required"),
    ("option bound", (("/options/dropout", 1.5),), "/options/dropout", "out_of_range"),
    (
        "override bound",
        (("/hardware/overrides", {"memory_bytes": 0}),),
        "/hardware/overrides/memory_bytes",
        "out_of_range",
    ),
    ("headroom", (("/headroom", 1),), "/headroom", "out_of_range"),
)


@pytest.mark.parametrize(
    ("changes", "pointer", "code"), [case[1:] for case in MEANING], ids=[case[0] for case in MEANING]
)
def test_a_request_that_means_nothing_is_a_fault_there(
    changes: tuple[tuple[str, Any], ...], pointer: str, code: str
) -> None:
    assert (pointer, code) in faults_of(put(ESTIMATE, *changes))


def test_kv_heads_are_replicated_where_tp_is_larger() -> None:
    """Megatron and DTensor copy KV heads a whole number of times: 8 of them over 32 ranks is a run that exists."""
    read_estimate(
        put(ESTIMATE, ("/parallelism/tp", 32), ("/parallelism/dp_shard", 2), ("/batch/global_batch_size", 2)), CONTEXT
    )


def test_all_faults_come_at_once_and_rules_stay_quiet_about_faulty_members() -> None:
    changes = (
        ("/model", "llama-3-80b"),
        ("/hardware/accelerator", "h1000"),
        ("/parallelism/tp", -1),
        ("/precision", "nope"),
        ("/optimizer", {"name": "sgd", "momentum": 2}),
        ("/batch/micro_batch_size", 0),
        ("/options/loss", "magic"),
        ("/colour", "red"),
    )
    found = faults_of(put(ESTIMATE, *changes))
    assert {pointer for pointer, _ in found} == {
        "/model",
        "/hardware/accelerator",
        "/parallelism/tp",
        "/precision",
        "/optimizer/momentum",
        "/batch/micro_batch_size",
        "/options/loss",
        "/colour",
    }


@pytest.mark.parametrize("payload", [None, 5, "x", [], [ESTIMATE], True])
def test_a_body_that_is_no_object_is_a_fault_at_the_root(payload: object) -> None:
    assert faults_of(payload) == [("", "wrong_type")]


def test_unknown_members_name_the_nearest_and_a_flood_is_summed_up() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_estimate(put(ESTIMATE, ("/options/reduce_bucket_sizes", 5)), CONTEXT)
    assert "reduce_bucket_size" in caught.value.faults[0].detail
    flood = faults_of(put(ESTIMATE, ("/options", {f"k{index}": index for index in range(5000)})))
    assert len(flood) == 21


def test_a_detail_repeats_long_values_shortened() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_estimate(put(ESTIMATE, ("/attention", "A" * 100_000)), CONTEXT)
    assert len(caught.value.faults[0].detail) < 300
