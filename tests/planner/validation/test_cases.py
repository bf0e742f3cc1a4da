"""From a request to a work order: what is refused before anything is built, and what is made smaller."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import InvalidRequest
from planner.validation.configs import config_of
from planner.validation.kinds import KINDS
from planner.validation.reduce import BLOCKS, reduced
from planner.validation.shipped import CASES, GPT, MODEL, ci_share, request
from tests.planner.validation.payloads import case


def faults(payload: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as caught:
        case(payload)
    return [(fault.pointer, fault.code) for fault in caught.value.faults]


def asked(kind: str = "cpu", **members: Any) -> dict[str, Any]:
    return {"kind": kind, "request": request("fsdp2", 3, 8, **members)}


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_shipped_case_can_be_run(name: str) -> None:
    cases = [case(payload) for payload in CASES[name][1]()]
    assert cases
    assert all(found.job for found in cases)


def test_the_cpu_matrix_has_the_combinations_it_promises() -> None:
    rows = [case(payload) for payload in CASES["cpu-matrix"][1]()]
    worlds = {found.job["world"] for found in rows}
    assert len(rows) >= 40
    assert worlds == {1, 2, 4}
    assert {found.job["engine"] for found in rows} == {"ddp", "fsdp1", "fsdp2", "deepspeed"}


def test_the_share_that_runs_with_the_real_libraries_spans_them_too() -> None:
    rows = [case(payload) for payload in ci_share("cpu-matrix")]
    assert len(rows) >= 40
    assert {found.job["world"] for found in rows} == {1, 2, 4}
    combined = {(found.job["engine"], found.job["optimizer"]["name"]) for found in rows}
    assert {
        ("fsdp1", "adamw-8bit"), ("fsdp2", "adamw-8bit-torchao"), ("deepspeed", "adafactor"), ("ddp", "adafactor-hf"),
    } <= combined  # fmt: skip


def test_the_gpu_matrix_spans_models_optimizers_recomputation_and_lengths() -> None:
    rows = [case(payload).job for payload in CASES["gpu-matrix"][1]()]
    assert len(rows) >= 12
    assert len({row["model"]["config"]["model_type"] for row in rows}) == 2
    assert len({row["optimizer"]["name"] for row in rows}) == 3
    assert {row["recompute"] for row in rows} == {"none", "full"}
    assert len({row["batch"]["sequence_length"] for row in rows}) > 1


@pytest.mark.parametrize(
    ("payload", "pointer", "code"),
    [
        ([], "", "wrong_type"),
        ({"kind": "cpu"}, "/request", "required"),
        (asked("tpu"), "/kind", "unknown_value"),
        ({**asked(), "measured": {}}, "/measured", "not_here"),
        ({**asked(), "options": {}}, "/options", "not_here"),
        ({**asked("convergence"), "options": {"seeds": 1}}, "/options/seeds", "out_of_range"),
        (
            {"kind": "convergence", "request": request("megatron", 1, 8), "options": {"ranks": 2}},
            "/options/ranks",
            "engine_unsupported",
        ),
        (asked(optimizer="no-such"), "/request/optimizer", "unknown_name"),
        (asked(precision="bf16-master"), "/request/precision", "not_run_here"),
        ({"kind": "cpu", "request": request("deepspeed", 3, 8)}, "/request/precision", "not_run_here"),
        (asked(adapter={"method": "lora", "rank": 8}), "/request/adapter", "not_run_here"),
        (asked(recompute="selective"), "/request/recompute", "not_run_here"),
        ({"kind": "cpu", "request": request("megatron", 1, 8)}, "/request/sharding/engine", "engine_unsupported"),
        (asked("shapes", model={"parameters": 10**9}), "/request/model", "config_required"),
    ],
)
def test_what_cannot_be_run_is_refused_at_its_place(payload: object, pointer: str, code: str) -> None:
    found = faults(payload)
    assert pointer in [place for place, _ in found], found
    assert code in [word for _, word in found], found


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": 10**9},
        {"hidden_size": 10**12},
        {"hidden_size": -1},
        {"hidden_size": "4096"},
        {"num_hidden_layers": True},
        {"num_attention_heads": 0},
        {"vocab_size": 1e400},
        {"model_type": ["llama"]},
        {"model_type": "../../etc/passwd"},
        {"num_hidden_layers": 9_999},
    ],
)
def test_a_hostile_config_is_refused_before_anything_is_built(change: dict[str, Any]) -> None:
    """A model of 90,000 tensors is refused too: each would become an object."""
    for kind in ("shapes", "cpu", "dry-run"):
        found = faults(asked(kind, model={"config": {**MODEL, **change}}))
        assert all(place.startswith("/request/model") for place, _ in found)


def test_members_that_name_code_never_reach_the_library() -> None:
    evil = {
        "auto_map": {"AutoModel": "evil--evil.Model"},
        "_name_or_path": "evil/evil",
        "quantization_config": {"quant_method": "evil"},
        "torch_dtype": "evil",
        "attn_implementation": "evil/kernel",
        "_attn_implementation": "evil/kernel",
    }
    job = case(asked("shapes", model={"config": {**MODEL, **evil}})).job
    assert job["model"]["config"] == MODEL


def test_a_large_model_is_made_small_and_said_so() -> None:
    found = case(asked())
    assert found.job["world"] == 4
    assert found.job["model"]["config"]["num_hidden_layers"] == BLOCKS
    assert found.scenario.recipe.model.parameters < 1_000_000
    assert any("reduced" in note for note in found.notes)
    assert any("4 ranks" in note for note in found.notes)
    assert reduced(GPT)["n_embd"] == reduced(MODEL)["hidden_size"]


def test_a_config_is_written_only_where_it_reads_back_as_the_same_tensors() -> None:
    fields = {
        "family": "llama", "layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2, "ffn_size": 128,
        "vocab_size": 100, "gated_mlp": True, "norm": "rmsnorm",
    }  # fmt: skip
    found = case(asked("shapes", model={"architecture": fields}))
    model = found.scenario.recipe.model
    assert config_of(model, None) == found.job["model"]["config"]
    odd = {**fields, "qk_norm": True}
    assert ("/request/model", "config_required") in faults(asked("shapes", model={"architecture": odd}))


def test_kinds_know_their_order_of_cost() -> None:
    costs = [kind.least_cost for kind in KINDS.values()]
    assert len(set(costs)) == len(costs)
    assert min(KINDS.values(), key=lambda kind: kind.least_cost).name == "import"
