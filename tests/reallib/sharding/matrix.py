"""Which combinations are run, in CI and altogether, and how the libraries refuse the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accounting.facts.optimizers import OPTIMIZERS
from accounting.facts.refusals import refusal_of
from accounting.vocabulary import Engine
from tests.reallib.sharding.cells import Cell


def _engines() -> Iterator[Cell]:
    """Every engine with AdamW: worlds 2, 3 and 4, uneven first dimensions."""
    for world in (2, 3, 4):
        for model in ("vision", "qwen", "gpt2"):
            part = model == "vision" or (model == "qwen" and world == 3)
            yield Cell(engine="ddp", model=model, world=world, in_ci=part and world == 3)
            yield Cell(engine="zero1", model=model, world=world, in_ci=part)
            yield Cell(engine="fsdp2", model=model, world=world, in_ci=part)
            yield Cell(engine="fsdp2", model=model, world=world, precision="bf16-mixed", in_ci=part)
            yield Cell(engine="fsdp2", model=model, world=world, precision="bf16-pure", in_ci=part)
            for original in (True, False):
                options = {"use_orig_params": original}
                yield Cell(engine="fsdp1", model=model, world=world, options=options, in_ci=part)
            yield Cell(engine="fsdp1", model=model, world=world, precision="bf16-mixed", in_ci=part)
            yield Cell(engine="fsdp1", model=model, world=world, stage=2, in_ci=part)


def _deepspeed() -> Iterator[Cell]:
    for world in (2, 3):
        for model in ("vision", "qwen"):
            for stage in (1, 2, 3):
                for precision in ("bf16-master", "fp16-master"):
                    options = {"stage3_param_persistence_threshold": 500} if stage == 3 else {}
                    yield Cell(
                        engine="deepspeed",
                        model=model,
                        stage=stage,
                        world=world,
                        precision=precision,
                        options=options,
                        in_ci=precision == "bf16-master" and (world == 3 or model == "qwen"),
                    )
            wide = {"grad_accum_dtype": "fp32"}
            small = {"sub_group_size": 900, "stage3_param_persistence_threshold": 0}
            for stage, options in ((1, wide), (2, wide), (3, small)):
                yield Cell(
                    engine="deepspeed",
                    model=model,
                    stage=stage,
                    world=world,
                    precision="bf16-master",
                    in_ci=world == 3,
                    options=options,
                )


OPTIMIZERS_MIXED = (
    "sgd",
    "adam",
    "lion",
    "lion-8bit",
    "adamw-8bit",
    "adamw-8bit-torchao",
    "adamw-4bit",
    "adamw-fp8",
    "adafactor",
    "adafactor-hf",
    "muon",
    "came",
    "adamw-optimi",
    "nadam",
    "grams",
)
CI_OPTIMIZERS = ("lion", "adamw-8bit", "adafactor", "muon", "nadam")
MIXED_OPTIONS: dict[str, dict[str, Any]] = {"sgd": {"momentum": 0.9}}


def _combinations() -> Iterator[Cell]:
    """Optimizers under sharding that no table has beside one another."""
    for optimizer in OPTIMIZERS_MIXED:
        options = MIXED_OPTIONS.get(optimizer, {})
        for engine in ("fsdp2", "fsdp1", "zero1"):
            world = 3 if engine == "fsdp2" else 2
            refused = refused_by(engine, optimizer)
            yield Cell(
                engine=engine,
                model="llama",
                optimizer=optimizer,
                world=world,
                optimizer_options=options,
                refused=refused,
                in_ci=engine == "fsdp2" or optimizer in CI_OPTIMIZERS,
            )
        for stage in (2, 3):
            yield Cell(
                engine="deepspeed",
                model="llama",
                optimizer=optimizer,
                stage=stage,
                precision="bf16-master",
                optimizer_options=options,
                refused=refused_by("deepspeed", optimizer),
                in_ci=stage == 2 and optimizer in CI_OPTIMIZERS,
            )
    for engine in ("fsdp2", "ddp", "zero1"):
        yield Cell(engine=engine, model="llama", lora=5, world=3)
        yield Cell(engine=engine, model="llama", lora=8, world=2, optimizer="adamw-8bit-torchao")
    yield Cell(
        engine="fsdp2", model="qwen", lora=4, world=4, optimizer="adafactor", refused=refused_by("fsdp2", "adafactor")
    )
    yield Cell(
        engine="fsdp1",
        model="llama",
        lora=5,
        options={"use_orig_params": False},
        refused="does not support wrapping such modules when use_orig_params=False",
    )


def refused_by(engine: str, optimizer: str) -> str:
    """The message the library stops with; DDP's ZeroRedundancyOptimizer is no engine of the registry."""
    if (engine, optimizer) == ("zero1", "muon"):
        return "Muon only supports 2D parameters"
    refusal = None if engine == "zero1" else refusal_of(Engine(engine), optimizer)
    return refusal.words if refusal else ""


ALONE = {
    "sparse-adam": "needs sparse gradients",
    "lbfgs": "needs a closure",
    "alig-pytorch-optimizer": "needs a closure",
    "bsam-pytorch-optimizer": "needs a closure",
    "lomo": "steps inside backward",
    "adalomo": "steps inside backward",
    "ademamix-32bit": "its step fails without a state made by hand, sharded or not",
}
"""Rows that the common training step of these tests cannot drive."""
GATHERS_UNDER_FSDP1 = {
    f"{name}-heavyball"
    for name in (
        *("muon", "muon-adamw", "scion", "soap", "klsoap", "klshampoo"),
        *("psgd-kron", "psgd-pro", "psgd-lra"),
    )
}
"""heavyball puts FSDP1's slices of a matrix together again on one rank each: not modelled, and the answer warns."""
REGISTRY_OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {"momentum": 0.9} for name in ("sgd-8bit", "sgd-bitsandbytes", "lars-8bit", "lars")},
    **{name: {"rank": 16} for name in ("galore-adamw", "galore-adafactor", "galore-adamw-8bit", "apollo-adamw")},
    "adashift-pytorch-optimizer": {"steps": 2},
}


def _registry() -> Iterator[Cell]:
    """Every row of the registry under both FSDPs."""
    for optimizer, row in OPTIMIZERS.items():
        for engine in ("fsdp2", "fsdp1"):
            if optimizer in ALONE or (engine == "fsdp1" and optimizer in GATHERS_UNDER_FSDP1):
                continue
            yield Cell(
                engine=engine,
                model="llama",
                optimizer=optimizer,
                optimizer_options=REGISTRY_OPTIONS.get(optimizer, {}),
                precision="bf16-pure" if row.parameter_dtypes == ("bf16",) else "fp32",
                refused=refused_by(engine, optimizer),
                in_ci=False,
            )


def cells(*, everything: bool) -> list[Cell]:
    """The part that runs in CI, or the whole matrix."""
    found: dict[str, Cell] = {}
    for cell in (*_engines(), *_deepspeed(), *_combinations(), *_registry()):
        found.setdefault(cell.name, cell)
    return [cell for cell in found.values() if everything or cell.in_ci]
