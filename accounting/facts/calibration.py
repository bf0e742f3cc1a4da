"""The laws' constants as rows: one set per family of devices, one per family of engines, one per kernel style.

Each row names its source, its date and how many measured steps it was fitted on. A device outside every family's list
gets the row of its architecture, and one of an unknown architecture the generic row, with the wider band said there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from accounting.facts.calibration_devices import DEVICE_ROWS, FABRIC_ROW, VERSION
from accounting.facts.calibration_engines import ENGINE_ROWS
from accounting.facts.calibration_software import KERNEL_ROWS, LOW_PRECISION_ROWS
from accounting.facts.calibration_types import DeviceRow, EngineRow, FabricRow, KernelRow, LowPrecisionRow
from accounting.vocabulary import Attention, Engine, Schedule

if TYPE_CHECKING:
    from accounting.scenario import Recipe, Scenario

__all__ = ["CALIBRATION", "Calibration", "DeviceRow", "EngineRow", "FabricRow", "KernelRow", "LowPrecisionRow"]

CORE_FAMILY = "megatron-core"
"""Megatron-Core with Transformer Engine, told from its lineage (Megatron-DeepSpeed, nanotron, InternEvo) by fused
attention together with what only NVIDIA's own code runs: `nvidia_megatron`."""
LM_FAMILY = "megatron-lm"
"""NVIDIA's own code with written-out attention: Megatron-LM's kernels, before Transformer Engine."""

ENGINE_FAMILY: Mapping[Engine, str] = MappingProxyType(
    {
        Engine.DDP: "torch",
        Engine.FSDP1: "fsdp1",
        Engine.FSDP2: "fsdp2",
        Engine.DEEPSPEED: "deepspeed",
        Engine.MEGATRON: "megatron",
        Engine.IDEAL: "torch",
    }
)


_SMALL = frozenset({"fp8", "mxfp8", "nvfp4"})
_MEGATRON_ADAM = "adam"


def names_nvidia(recipe: Recipe) -> bool | None:
    """Whether a Megatron request says that it is NVIDIA's own code, by what only that runs; None where it does not say.

    Interleaved schedules, products below 16 bits, mixtures, a fused loss; `fused_norm`, given either way.
    """
    shape, options = recipe.model.architecture, recipe.options
    named = (
        recipe.schedule is Schedule.INTERLEAVED
        or recipe.precision.compute in _SMALL
        or options.loss == "fused"
        or (shape is not None and shape.moe is not None)
    )
    return True if named else options.fused_norm


def nvidia_megatron(recipe: Recipe) -> bool:
    """Whether a request is NVIDIA's own Megatron rather than code that grew out of it.

    As the request names it, else by Megatron's own spelling of the optimizer (`adam`; the others say adamw).
    """
    named = names_nvidia(recipe)
    spelled = recipe.optimizer.name == _MEGATRON_ADAM
    return recipe.engine is Engine.MEGATRON and (spelled if named is None else named)


def engine_families(scenario: Scenario) -> tuple[str, str]:
    """(family of the recipe, family of its candidates with context parallelism), which differ for Megatron only."""
    recipe = scenario.recipe
    if recipe.engine is not Engine.MEGATRON:
        return ENGINE_FAMILY[recipe.engine], ENGINE_FAMILY[recipe.engine]
    if not nvidia_megatron(recipe):
        return ENGINE_FAMILY[recipe.engine], CORE_FAMILY
    return LM_FAMILY if recipe.attention is Attention.EAGER else CORE_FAMILY, CORE_FAMILY


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One versioned set of constants."""

    version: str
    devices: Mapping[str, DeviceRow]
    engines: Mapping[str, EngineRow]
    kernels: Mapping[str, KernelRow]
    low_precision: Mapping[str, LowPrecisionRow]
    fabric: FabricRow
    by_slug: Mapping[str, DeviceRow] = field(init=False, repr=False, compare=False)
    by_architecture: Mapping[str, DeviceRow] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows = tuple(self.devices.values())[::-1]  # of rows that share a name the first counts
        slugs = {slug: row for row in rows for slug in row.slugs}
        architectures = {name: row for row in rows for name in row.architectures}
        object.__setattr__(self, "by_slug", MappingProxyType(slugs))
        object.__setattr__(self, "by_architecture", MappingProxyType(architectures))

    def device(self, slug: str, architecture: str) -> DeviceRow:
        """The row of a device: by its slug, else by its architecture, else the generic one."""
        row = self.by_slug.get(slug) or self.by_architecture.get(architecture.lower())
        return row or self.devices["generic"]


CALIBRATION = Calibration(
    version=VERSION,
    devices=MappingProxyType({row.name: row for row in DEVICE_ROWS}),
    engines=MappingProxyType({row.name: row for row in ENGINE_ROWS}),
    kernels=MappingProxyType({row.name: row for row in KERNEL_ROWS}),
    low_precision=MappingProxyType({row.name: row for row in LOW_PRECISION_ROWS}),
    fabric=FABRIC_ROW,
)
