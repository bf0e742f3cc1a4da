"""A plan request to a problem: defaults, filters, faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accounting.vocabulary import Engine, Place
from planner.errors import InvalidRequest
from planner.requests import RequestContext, read_plan
from planner.search.problem import PlanProblem, Pool
from tests.planner.requests.samples import CONTEXT, PLAN, REMOVED, put


def problem_of(*changes: tuple[str, Any]) -> PlanProblem:
    return read_plan(put(PLAN, *changes), CONTEXT)


def pointers(payload: object) -> list[str]:
    with pytest.raises(InvalidRequest) as caught:
        read_plan(payload, CONTEXT)
    return [fault.pointer for fault in caught.value.faults]


def test_every_default_stands_in_the_stored_request() -> None:
    problem = read_plan({"model": "llama-3-8b", "workload": {"sequence_length": 8192}}, CONTEXT)
    request = json.loads(json.dumps(problem.request))
    assert request["hardware"]["pricing"] == ["on-demand"]
    assert request["optimizers"] == ["adamw"]
    assert request["precisions"] == ["bf16-mixed"]
    assert request["engines"] == ["ddp", "fsdp1", "fsdp2", "deepspeed", "megatron"]
    assert request["search"]["tp"] == "auto"
    assert request["constraints"]["memory_headroom"] == 0.05
    assert request["goodput"]["failures_per_device_hour"] == 5e-6
    assert problem.tokens is problem.global_batch_tokens is None
    assert len(problem.accelerators) == len(CONTEXT.catalog.accelerators)
    assert {offer.pricing_kind for offer in problem.offers} == {"on-demand"}
    assert len(problem.offers) == len(problem.offer_nodes)


def test_the_stored_request_is_read_as_the_same_problem() -> None:
    first = problem_of(("/search", {"tp": [1, 2], "recompute": ["none", {"mode": "full", "every": 2}]}))
    assert read_plan(first.request, CONTEXT) == first


def test_filters_keep_catalog_order_and_spelling() -> None:
    problem = problem_of(("/hardware", {"accelerators": ["H200-SXM-141GB", "A100-SXM4-80GB"], "providers": ["AWS"]}))
    assert [row.slug for row in problem.accelerators] == ["a100-sxm4-80gb", "h200-sxm-141gb"]
    assert {offer.provider for offer in problem.offers} == {"aws"}


def test_an_empty_pricing_list_means_any() -> None:
    kinds = {offer.pricing_kind for offer in problem_of(("/hardware/pricing", [])).offers}
    assert kinds == {"on-demand", "spot", "reserved"}


def test_axes_and_offloads_are_read() -> None:
    problem = problem_of(("/search", {"tp": [4, 1, 4], "offload": ["none", "cpu", {"parameters": "cpu"}]}))
    assert problem.tp == (1, 4)
    assert problem.pp is None
    assert [offload.optimizer for offload in problem.offloads] == [Place.NONE, Place.CPU, Place.NONE]
    assert problem.offloads[2].parameters is Place.CPU


NUMBERS: dict[str, tuple[Any, ...]] = {
    "/workload/tokens": (0, -1, True, "x", [], 1.5),
    "/workload/sequence_length": (0, -1, True, "x", 2.5, None),
    "/workload/global_batch_tokens": (0, -1, True, "x", 8193),
    "/hardware/max_count": (0, -1, True, "x", 1.5, 10**12),
    "/constraints/deadline_hours": (0, -1, True, "x", [], float("inf")),
    "/constraints/budget_usd": (-1, True, "1,000", []),
    "/constraints/memory_headroom": (-0.1, 1.5, "5%", True, []),
    "/options": (0, -1, True, "x", 10**9, 1.5),
}


@pytest.mark.parametrize(
    ("pointer", "value"), [(pointer, value) for pointer, values in NUMBERS.items() for value in values]
)
def test_a_number_of_the_wrong_type_or_size_is_a_fault_there(pointer: str, value: Any) -> None:
    assert pointer in pointers(put(PLAN, (pointer, value)))


LISTS = (
    "/hardware/accelerators",
    "/hardware/pricing",
    "/hardware/providers",
    "/hardware/regions",
    "/optimizers",
    "/precisions",
    "/engines",
    "/search/zero_stages",
    "/search/recompute",
    "/search/offload",
)


@pytest.mark.parametrize("pointer", LISTS)
@pytest.mark.parametrize(
    "value", ["x", {}, 5, None, [None], [{}], [[]], ["nope\0"], ["x"] * 20_000], ids=lambda v: str(v)[:9]
)
def test_a_list_of_the_wrong_things_is_a_fault_there(pointer: str, value: Any) -> None:
    assert any(found.startswith(pointer) for found in pointers(put(PLAN, (pointer, value))))


@pytest.mark.parametrize("axis", ["tp", "pp", "cp", "ep", "micro_batch_sizes"])
@pytest.mark.parametrize(
    "value", ["all", [], [0], [-1], [True], [1.5], ["1"], {}, list(range(1, 50_000))], ids=lambda v: str(v)[:9]
)
def test_an_axis_of_the_wrong_things_is_a_fault_there(axis: str, value: Any) -> None:
    assert any(found.startswith(f"/search/{axis}") for found in pointers(put(PLAN, (f"/search/{axis}", value))))


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (("/objective", "free"), "/objective"),
        (("/hardware/pool", "no-such-pool"), "/hardware/pool"),
        (("/hardware/min_count", 65), "/hardware/min_count"),
        (("/hardware/providers", ["amazon"]), "/hardware/providers/0"),
        (("/hardware/accelerators", ["A100"]), "/hardware/accelerators/0"),
        (("/model", REMOVED), "/model"),
        (("/note", "x"), "/note"),
        (("/optimizers", ["adamw", {"name": "sgd", "momentum": 7}]), "/optimizers/1/momentum"),
        (("/search/recompute", [{"mode": "full", "modules": ["mlp"]}]), "/search/recompute/0/modules"),
    ],
)
def test_a_plan_that_means_nothing_is_a_fault_there(change: tuple[str, Any], pointer: str) -> None:
    assert pointer in pointers(put(PLAN, change))


def test_stages_that_no_engine_has_are_a_fault() -> None:
    assert "/search/zero_stages" in pointers(put(PLAN, ("/engines", ["ddp"]), ("/search/zero_stages", [3])))


def test_all_faults_come_at_once() -> None:
    found = pointers(put(PLAN, ("/model", "x"), ("/objective", "x"), ("/search/tp", [0]), ("/hardware/regions", ["x"])))
    assert set(found) == {"/model", "/objective", "/search/tp/0", "/hardware/regions/0"}


def test_a_pool_brings_its_own_devices_and_no_offers() -> None:
    catalog = CONTEXT.catalog
    pool = Pool(
        slug="lab",
        accelerator=catalog.accelerators["h100-sxm5-80gb"],
        node_type=catalog.node_types["aws-p5-48xlarge"],
        count=16,
        usd_per_device_hour=None,
    )
    context = RequestContext(catalog=catalog, find_model=CONTEXT.find_model, pools={"lab": pool})
    problem = read_plan(put(PLAN, ("/hardware", {"pool": "Lab"})), context)
    assert problem.pool is pool
    assert problem.accelerators == (pool.accelerator,)
    assert problem.offers == ()


def test_engines_are_the_vocabulary() -> None:
    assert problem_of(("/engines", ["DeepSpeed"])).engines == (Engine.DEEPSPEED,)
