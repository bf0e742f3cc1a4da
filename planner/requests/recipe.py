"""The members that are one value for every candidate: recompute, offload, adapter, other weights, knobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accounting.model import Adapter, ConfigError, Model, adapted
from accounting.options import Options
from accounting.scenario import ExtraModel, Offload, Recompute
from accounting.vocabulary import Engine, Place, RecomputeMode, Schedule
from planner.requests.notes import Notes

QUANTISED = frozenset({"nf4", "int8", "gptq-int4"})
DEFAULT_BASE = {"lora": "bf16", "dora": "bf16", "qlora": "nf4"}


@dataclass(frozen=True, slots=True)
class Sharding:
    engine: Engine
    zero_stage: int


def read_recompute(given: str | Mapping[str, Any] | None, pointer: str, notes: Notes) -> Recompute:
    """How much of the forward pass is run again; a member of another mode is a fault."""
    if given is None:
        return Recompute()
    if isinstance(given, str):
        return Recompute(mode=RecomputeMode(given))
    if "mode" not in given:
        return Recompute()
    mode = RecomputeMode(given["mode"])
    belongs = {"every": RecomputeMode.FULL, "layers": RecomputeMode.FULL, "modules": RecomputeMode.SELECTIVE}
    for name, owner in belongs.items():
        if name in given and mode is not owner:
            notes.faults.add(f"{pointer}/{name}", "contradiction", f"{name} belongs to mode {owner}, not {mode}")
    if "every" in given and "layers" in given:
        notes.faults.add(f"{pointer}/layers", "contradiction", "every and layers exclude each other: keep one")
    return Recompute(
        mode=mode, every=given.get("every", 1), layers=given.get("layers"), modules=given.get("modules", ())
    )


def read_offload(given: Mapping[str, Any]) -> Offload:
    return Offload(**{name: Place(place) for name, place in given.items()})


def check_offload(offload: Offload, sharding: Sharding, pointer: str, notes: Notes) -> None:
    """Where an engine has no such door, the request is refused rather than answered for another engine."""
    engine, stage = sharding.engine, sharding.zero_stage
    parts = {"optimizer": offload.optimizer, "parameters": offload.parameters}
    for name, place in parts.items():
        if place is Place.NVME and engine not in {Engine.DEEPSPEED, Engine.IDEAL}:
            detail = f"{engine} has no NVMe offload; DeepSpeed at stage 3 has"
            notes.faults.add(f"{pointer}/{name}", "engine_unsupported", detail)
    if offload.parameters is not Place.NONE and engine is Engine.DEEPSPEED and stage < 3:  # noqa: PLR2004
        detail = f"DeepSpeed moves parameters off the device at ZeRO stage 3 only, and the stage is {stage}"
        notes.faults.add(f"{pointer}/parameters", "engine_unsupported", detail)


def read_schedule(given: Mapping[str, Any], virtual: int, stages: int, notes: Notes) -> Schedule:
    if "schedule" in given:
        schedule = Schedule(given["schedule"])
        if stages == 1 and schedule is not Schedule.ONE_F_ONE_B:
            notes.warn("pipeline.schedule changes nothing: pp is 1")
        return schedule
    if virtual > 1:
        notes.assume("interleaved pipeline schedule, as vpp > 1 asks for")
        return Schedule.INTERLEAVED
    return Schedule.ONE_F_ONE_B


def read_adapter(
    given: Mapping[str, Any] | None, options: Mapping[str, Any], model: Model, notes: Notes
) -> Adapter | None:
    """The adapter; its names are checked against the matrices of the model."""
    if given is None or "method" not in given:
        return None
    method = given["method"]
    if "base_dtype" not in given:
        notes.assume(f"adapter base in {DEFAULT_BASE[method]}")
    for name, default in (("rank", 16), ("targets", "all-linear")):
        if name not in given:
            notes.assume(f"adapter {name} {default}")
    adapter = Adapter(
        method=method,
        rank=given.get("rank", 16),
        targets=given.get("targets", "all-linear"),
        base_dtype=given.get("base_dtype", DEFAULT_BASE[method]),
        target_modules=options.get("target_modules"),
        modules_to_save=options.get("modules_to_save", ()),
    )
    if method == "qlora" and adapter.base_dtype not in QUANTISED:
        detail = f"qlora means a quantised base ({', '.join(sorted(QUANTISED))}), not {adapter.base_dtype}; say lora"
        notes.faults.add("/adapter/base_dtype", "contradiction", detail)
    return adapter if _fits(adapter, model, notes) else None


def _fits(adapter: Adapter, model: Model, notes: Notes) -> bool:
    if notes.faults.touches("/model"):
        return False
    if model.inventory is None or model.architecture is None:
        detail = "an adapter needs the model's matrices: give a config or an architecture instead of a count or tensors"
        notes.faults.add("/adapter", "needs_shapes", detail)
        return False
    try:
        for warning in adapted(model.inventory, model.architecture, adapter).warnings:
            notes.warn(warning)
    except ConfigError as error:
        notes.add_faults("", ((fault.pointer, fault.code, fault.detail) for fault in error.faults))
        return False
    return True


def check_adapter(adapter: Adapter | None, sharding: Sharding, notes: Notes) -> None:
    if adapter is None or adapter.base_dtype not in QUANTISED:
        return
    if sharding.engine is Engine.DEEPSPEED and sharding.zero_stage == 3:  # noqa: PLR2004
        detail = (
            f"ZeRO-3 does not shard a {adapter.base_dtype} base: every device would hold all of it; use stage 2, "
            "or an fsdp engine, which shards 4-bit weights"
        )
        notes.faults.add("/adapter/base_dtype", "engine_unsupported", detail)
    if sharding.engine is Engine.MEGATRON:
        notes.faults.add("/adapter/base_dtype", "engine_unsupported", "Megatron has no quantised base for adapters")


def read_extra_models(given: tuple[Mapping[str, Any], ...]) -> tuple[ExtraModel, ...]:
    return tuple(ExtraModel(**entry) for entry in given if "role" in entry)


def read_options(given: Mapping[str, Any]) -> Options:
    return Options(**given)
