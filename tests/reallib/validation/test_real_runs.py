"""Validations run for real, against the frameworks: what the product promises of them.

The interpreter is VALIDATION_PYTHON, or this one; without the extra the tests are skipped and say so. Every work order
of a test goes through one measuring process, as the service would start it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.validation.cases import Case
from planner.validation.child import Limits, run_child
from planner.validation.compare import COMPARISONS, Comparison
from planner.validation.convergence import compare_convergence
from planner.validation.reduce import reduced
from planner.validation.shipped import CASES, GPT, MODEL, SMALL, request
from tests.planner.validation.payloads import case

pytestmark = [pytest.mark.reallib, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
PYTHON = os.environ.get("VALIDATION_PYTHON", sys.executable)
LIMITS = Limits(seconds=1800, memory_bytes=8 << 30, processes=64)


@cache
def available() -> bool:
    return (
        subprocess.run([PYTHON, "-c", "import torch, transformers"], capture_output=True, check=False).returncode == 0
    )


@pytest.fixture(autouse=True)
def extra() -> None:
    if not available():
        pytest.skip("NOT RUN AGAINST THE REAL FRAMEWORK: set VALIDATION_PYTHON to an interpreter with the extra")


def measured(payloads: list[Any]) -> list[tuple[Case, Mapping[str, Any]]]:
    cases = [case(payload) for payload in payloads]
    kind = cases[0].kind.name
    found = run_child(kind, [dict(one.job) for one in cases], python=PYTHON, limits=LIMITS, alive=lambda progress: True)
    faults = [(one.request, result) for one, result in zip(cases, found.results, strict=True) if "error" in result]
    assert faults == []
    return list(zip(cases, found.results, strict=True))


def compared(one: Case, result: Mapping[str, Any]) -> Comparison:
    return COMPARISONS[one.kind.name](one.scenario, result)


def disagreements(runs: list[tuple[Case, Mapping[str, Any]]]) -> list[Any]:
    found = [(one.request, compared(one, result)) for one, result in runs]
    return [(asked, comparison.outliers()) for asked, comparison in found if comparison.agrees is not True]


def test_shapes_of_real_classes() -> None:
    models = [MODEL, SMALL, GPT, {**MODEL, "model_type": "mistral", "architectures": ["MistralForCausalLM"]}]
    payloads = [{"kind": "shapes", "request": request("fsdp2", 3, 8, model={"config": model})} for model in models]
    assert disagreements(measured(payloads)) == []


def test_every_rank_of_the_cpu_matrix_holds_what_was_predicted() -> None:
    """Optimizers × precisions × engines and stages × 1, 2 and 4 ranks, to the byte."""
    assert disagreements(measured(list(CASES["cpu-matrix"][1]()))) == []


def test_phases_of_small_models_agree() -> None:
    assert disagreements(measured(list(CASES["dry-matrix"][1]()))) == []


def test_llama_3_8b_on_8_and_64_fake_ranks_agrees() -> None:
    runs = measured(list(CASES["dry-8b"][1]()))
    assert disagreements(runs) == []
    assert [one.job["world"] for one, _ in runs] == [8, 64]


def test_a_class_that_the_library_lacks_is_a_result_not_a_crash() -> None:
    payload = {
        "kind": "shapes",
        "request": request("fsdp2", 3, 8, model={"config": {**SMALL, "architectures": ["Path"]}}),
    }
    job = dict(case(payload).job)
    found = run_child("shapes", [job], python=PYTHON, limits=LIMITS, alive=lambda progress: True)
    assert found.results[0]["error"]["code"] == "refused_by_library"
    assert found.environment["torch"]


def test_without_a_device_the_gpu_kind_says_so() -> None:
    (payload, *_) = CASES["gpu-matrix"][1]()
    found = run_child("gpu", [dict(case(payload).job)], python=PYTHON, limits=LIMITS, alive=lambda progress: True)
    result = found.results[0]
    if "error" not in result:
        pytest.skip("this machine has a device")
    assert "no CUDA device" in result["error"]["detail"]


def test_the_procedure_of_device_runs_on_a_double() -> None:
    """Every shipped configuration of a device, its model made small: the steps are real, the counters are not."""
    jobs = []
    for payload in CASES["gpu-matrix"][1]():
        job = dict(case(payload).job)
        model = {"config": reduced(job["model"]["config"])}
        jobs.append({**job, "model": model, "batch": {**job["batch"], "micro_batch_size": 1, "sequence_length": 16}})
    command = [PYTHON, "-m", "tests.reallib.validation.gpu_double"]
    # One thread, as the service runs it: many on few cores wait for one another.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        command, input=json.dumps(jobs), capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    results = json.loads(run.stdout.splitlines()[-1])
    assert len(results) == len(jobs)
    for whole, short in results:
        assert set(whole["phases"]) == {"forward", "backward", "optimizer_step"}
        assert whole["peak_reserved_bytes"] == 2 * whole["peak_allocated_bytes"]
        assert whole["step_seconds"] > 0
        assert len(whole["all_step_seconds"]) == 5
        assert short["fits"] is False
        assert "out of memory" in short["out_of_memory"]["detail"]
        assert short["out_of_memory"]["in"] in {"forward", "backward", "optimizer_step"}


CHECKS = {
    ("adamw", "fp32", None): {"indistinguishable"},
    ("adamw-8bit", "fp32", None): {"indistinguishable"},
    ("sgd", "bf16-pure", 1e-3): {"stalled"},
    ("adamw", "fp32", 3.0): {"diverged", "worse", "stalled"},
}


def test_convergence_tells_equal_from_stalled_and_unstable() -> None:
    payloads = []
    for (optimizer, precision, rate), _ in CHECKS.items():
        asked = request("ddp", 0, 1, optimizer=optimizer, precision=precision)
        options = {"steps": 120, "seeds": 3} | ({"learning_rate": rate} if rate else {})
        payloads.append({"kind": "convergence", "request": asked, "options": options})
    runs = measured(payloads)
    words = [compare_convergence(result).predicted["verdict"]["word"] for _, result in runs]
    for word, wanted in zip(words, CHECKS.values(), strict=True):
        assert word in wanted, words
    same, quantised, stalled, _ = (result for _, result in runs)
    assert all(seed["candidate"]["final_loss"] == seed["reference"]["final_loss"] for seed in same["seeds"])
    assert stalled["seeds"][0]["candidate"]["unchanged_share"]["all"] > 0.9
    assert same["seeds"][0]["candidate"]["unchanged_share"]["all"] < 0.01
    layers = quantised["noise"]
    assert len(layers) > 8
    assert all(0 < layer["first_moment_8bit"] < 0.1 for layer in layers)
    assert all(0 < layer["second_moment_rank_1"] < 2 for layer in layers)
