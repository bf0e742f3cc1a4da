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

import accounting.memory.ranks
from accounting.memory.states import STATE_LINES
from planner.validation.cases import Case
from planner.validation.child import Limits, run_child
from planner.validation.compare import COMPARISONS, Comparison
from planner.validation.convergence import compare_convergence, noise_by_layer
from planner.validation.reduce import reduced
from planner.validation.shipped import CASES, GPT, MODEL, SMALL, ci_share, request
from tests.planner.validation.payloads import case, corrupted

pytestmark = [pytest.mark.reallib, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
PYTHON = os.environ.get("VALIDATION_PYTHON", sys.executable)
LIMITS = Limits(seconds=1800, memory_bytes=8 << 30, processes=64)


@cache
def available(*names: str) -> bool:
    """Whether the measuring interpreter has these packages."""
    looked = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {names!r})))"
    return subprocess.run([PYTHON, "-c", looked], capture_output=True, check=False).returncode == 0


@pytest.fixture(autouse=True)
def extra() -> None:
    if not available("torch", "transformers"):
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
    print_table(runs)
    return [(asked, comparison.outliers()) for asked, comparison in found if comparison.agrees is not True]


def print_table(runs: list[tuple[Case, Mapping[str, Any]]]) -> None:
    """Predicted beside measured, for whoever runs this with -s."""
    for one, result in runs:
        recipe, comparison = one.scenario.recipe, compared(one, result)
        head = comparison.headline
        worst = max((abs(line.error) for line in comparison.lines if line.error is not None), default=0.0)
        what = f"{recipe.engine.value}-{recipe.zero_stage} x{one.job.get('world', 1)} {recipe.precision.name:11}"
        sizes = "" if head is None else f"{head.predicted:>16,} {head.measured:>16,}"
        print(f"{one.kind.name:8} {what} {recipe.optimizer.name:18} {sizes} {worst:8.3%} {comparison.agrees}")


def test_shapes_of_real_classes() -> None:
    models = [MODEL, SMALL, GPT, {**MODEL, "model_type": "mistral", "architectures": ["MistralForCausalLM"]}]
    payloads = [{"kind": "shapes", "request": request("fsdp2", 3, 8, model={"config": model})} for model in models]
    assert disagreements(measured(payloads)) == []


@cache
def cpu_runs() -> list[tuple[Case, Mapping[str, Any]]]:
    """CI's share of the CPU matrix, run once."""
    rows = ci_share("cpu-matrix")
    if not available("deepspeed"):
        rows = [row for row in rows if row["request"]["sharding"]["engine"] != "deepspeed"]
    return measured(rows)


def test_every_rank_of_the_cpu_matrix_holds_what_was_predicted() -> None:
    """Optimizers × precisions × engines and stages × 1, 2 and 4 ranks, to the byte."""
    assert len(cpu_runs()) >= 40  # noqa: PLR2004 - what is promised
    assert disagreements(cpu_runs()) == []


@pytest.mark.parametrize("name", ["dry-matrix", "dry-split"])
def test_phases_of_small_models_agree(name: str) -> None:
    assert disagreements(measured(ci_share(name))) == []


def test_a_corrupted_formula_disagrees_with_a_real_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """One gradient byte in a thousand: the run names the line."""
    wrong = corrupted(STATE_LINES, "states.gradients", 1.001)
    monkeypatch.setattr(accounting.memory.ranks, "STATE_LINES", wrong)
    ((one, result), *_) = cpu_runs()
    comparison = compared(one, result)
    assert comparison.agrees is False
    assert {outlier["line"] for outlier in comparison.outliers()} == {"states.gradients"}


def test_llama_3_8b_on_8_and_64_fake_ranks_agrees() -> None:
    runs = measured([row for row in CASES["dry-8b"][1]() if row["request"]["parallelism"]["tp"] == 1])
    assert disagreements(runs) == []
    assert [(one.job["world"], one.job["degrees"]["tp"]) for one, _ in runs] == [(8, 1), (64, 1)]


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
    """Every second configuration for a device, its model made small: the steps are real, the counters are not."""
    jobs = []
    for payload in list(CASES["gpu-matrix"][1]())[::2]:
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
    assert len({job["optimizer"]["name"] for job in jobs}) == 3  # noqa: PLR2004 - all of the matrix's
    for whole, short in results:
        assert set(whole["phases"]) == {"forward", "backward", "optimizer_step"}
        assert whole["peak_reserved_bytes"] == 2 * whole["peak_allocated_bytes"]
        assert whole["step_seconds"] > 0
        assert len(whole["all_step_seconds"]) == 5
        assert short["fits"] is False
        assert "out of memory" in short["out_of_memory"]["detail"]
        assert short["out_of_memory"]["in"] in {"forward", "backward", "optimizer_step"}


CHECKS: tuple[tuple[str, str, str, dict[str, Any], set[str]], ...] = (
    ("ddp", "adamw", "fp32", {}, {"indistinguishable"}),
    ("ddp", "adamw-8bit", "fp32", {}, {"indistinguishable"}),
    ("ddp", "sgd", "bf16-pure", {"learning_rate": 1e-3}, {"stalled"}),
    ("ddp", "adamw", "fp32", {"learning_rate": 3.0}, {"diverged", "worse", "stalled"}),
    ("fsdp2", "adamw-8bit-torchao", "fp32", {"ranks": 2}, {"indistinguishable"}),
)


def test_convergence_tells_equal_from_stalled_and_unstable() -> None:
    payloads = []
    for engine, optimizer, precision, options, _ in CHECKS:
        stage, world = (0 if engine == "ddp" else 3), options.get("ranks", 1)
        asked = request(engine, stage, world, optimizer=optimizer, precision=precision)
        payloads.append({"kind": "convergence", "request": asked, "options": {"steps": 80, "seeds": 3, **options}})
    runs = measured(payloads)
    words = [compare_convergence(result).predicted["verdict"]["word"] for _, result in runs]
    for word, (*_, wanted) in zip(words, CHECKS, strict=True):
        assert word in wanted, words
    same, quantised, stalled, _, sharded = (result for _, result in runs)
    assert sharded["ranks"] == 2
    assert all(seed["candidate"]["final_loss"] == seed["reference"]["final_loss"] for seed in same["seeds"])
    assert stalled["seeds"][0]["candidate"]["unchanged_share"]["all"] > 0.9
    assert same["seeds"][0]["candidate"]["unchanged_share"]["all"] < 0.01
    layers = noise_by_layer(quantised["noise"])
    assert len(layers) > 8  # noqa: PLR2004 - every matrix of the model
    for layer in layers:
        mean, low, high = layer["first_moment_8bit"]
        assert 0 < low < mean < high < 0.1  # noqa: PLR2004
        assert 0 < layer["second_moment_rank_1"][0] < 2  # noqa: PLR2004
