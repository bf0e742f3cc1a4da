"""GPU run: real steps on a device: allocator peaks, driver reading, seconds; running out of memory is a result."""

from __future__ import annotations

import contextlib
import time
from statistics import median
from typing import Any

import torch

from planner.validation.measure.models import DTYPES, Refused, Tensors, batch_of, built, loss_and_outputs, recompute
from planner.validation.measure.optimizers import built_optimizers

WARM_UP = 3
"""Steps before the counted ones: states appear, kernels are chosen, clocks rise."""
COUNTED = 5


class Device:
    """The counters of a CUDA device. Replaced by its double where there is none, in tests of the procedure."""

    name = "cuda"
    out_of_memory: tuple[type[BaseException], ...] = (torch.OutOfMemoryError,)

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise Refused("this worker has no CUDA device; gpu validations run on workers of the gpu queue")
        torch.cuda.init()

    def forget(self) -> None:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def new_phase(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    def wait(self) -> None:
        torch.cuda.synchronize()

    def levels(self) -> dict[str, int]:
        """Peaks since `new_phase`, and what the driver counts for this process and all others now."""
        free, total = torch.cuda.mem_get_info()
        return {
            "allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(),
            "driver": total - free,
        }

    def environment(self) -> dict[str, Any]:
        properties = torch.cuda.get_device_properties(0)
        return {
            "device": properties.name,
            "device_total_bytes": properties.total_memory,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda,
        }


def measure(job: dict[str, Any], device: Any = None) -> dict[str, Any]:
    """Levels by phase and seconds of a step, the first steps left out. Raises Refused without a device."""
    counters = device or Device()
    counters.forget()
    before = counters.levels()["driver"]
    reached: list[str] = ["load"]
    try:
        found = _steps(job, counters, reached)
    except counters.out_of_memory as fault:
        found = {
            "out_of_memory": {"in": reached[-1], "detail": str(fault)[:400], **counters.levels()},
            "fits": False,
        }
    return {
        **found,
        "driver_bytes_before": before,
        "environment": counters.environment(),
    }


def _steps(job: dict[str, Any], counters: Any, reached: list[str]) -> dict[str, Any]:
    torch.manual_seed(0)
    model = built(job, dtype=job["precision"]["parameters"], device=counters.name)
    if not isinstance(model, Tensors):
        recompute(model, job["recompute"])
    optimizers = built_optimizers(job, model)
    batch = batch_of(job, model, counters.name)
    for _ in range(WARM_UP):
        _step(job, model, optimizers, batch, counters, reached)
    counters.forget()
    phases: dict[str, dict[str, int]] = {}
    for _ in range(COUNTED):
        for phase, levels in _step(job, model, optimizers, batch, counters, reached).items():
            kept = phases.setdefault(phase, dict.fromkeys(levels, 0))
            phases[phase] = {name: max(kept[name], amount) for name, amount in levels.items()}
    seconds = _timed(job, model, optimizers, batch, counters)
    return {
        "phases": phases,
        "by_phase": {phase: levels["allocated"] for phase, levels in phases.items()},
        "peak_allocated_bytes": max(levels["allocated"] for levels in phases.values()),
        "peak_reserved_bytes": max(levels["reserved"] for levels in phases.values()),
        "device_bytes": max(levels["driver"] for levels in phases.values()),
        "step_seconds": median(seconds),
        "all_step_seconds": seconds,
        "fits": True,
    }


def _step(
    job: dict[str, Any], model: Any, optimizers: list[Any], batch: dict[str, Any], counters: Any, reached: list[str]
) -> dict[str, dict[str, int]]:
    """One optimizer step over all micro-batches; the levels of each phase at its highest."""
    found: dict[str, dict[str, int]] = {}

    def note(phase: str) -> None:
        levels = counters.levels()
        kept = found.setdefault(phase, dict.fromkeys(levels, 0))
        found[phase] = {name: max(kept[name], amount) for name, amount in levels.items()}
        counters.new_phase()

    counters.new_phase()
    for _ in range(job["batch"]["micro_batches"]):
        reached.append("forward")
        loss, outputs = _forward(job, model, batch, counters)
        note("forward")
        reached.append("backward")
        loss.backward()
        del loss, outputs
        note("backward")
    reached.append("optimizer_step")
    for one in optimizers:
        one.step()
    note("optimizer_step")
    for one in optimizers:
        one.zero_grad(set_to_none=True)
    return found


def _forward(job: dict[str, Any], model: Any, batch: dict[str, Any], counters: Any) -> tuple[Any, Any]:
    cast = contextlib.nullcontext()
    if job["autocast"]:
        cast = torch.autocast(counters.name, DTYPES[job["precision"]["compute"]])
    with cast:
        return loss_and_outputs(job, model, batch)


def _timed(job: dict[str, Any], model: Any, optimizers: list[Any], batch: dict[str, Any], counters: Any) -> list[float]:
    """Whole steps without any reading in between: reading the counters waits for nothing but takes host time."""
    seconds = []
    for _ in range(COUNTED):
        counters.wait()
        started = time.perf_counter()
        for _ in range(job["batch"]["micro_batches"]):
            loss, outputs = _forward(job, model, batch, counters)
            loss.backward()
            del loss, outputs
        for one in optimizers:
            one.step()
            one.zero_grad(set_to_none=True)
        counters.wait()
        seconds.append(time.perf_counter() - started)
    return seconds
