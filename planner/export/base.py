"""What a launch file is made from, and the contract of the formats.

A format says how to write one `Launch` down. It writes what the plan decided (devices, degrees, batch, sharding,
precision, recomputation, offload) and leaves to the user what the plan knows nothing of (data, learning rate, script).
Where a framework cannot do what the plan decided, the format raises `NotExportable`; where it does nearly the same, it
says so in the file's comment. No free text of a request ever enters a file: names are slugs, values are numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from accounting.model import Architecture
from accounting.scenario import Recipe, Recompute, Scenario
from accounting.vocabulary import Attention, Engine, RecomputeMode
from planner.errors import PlannerError

SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
OWN_FORMAT = {Engine.MEGATRON: "megatron", Engine.FSDP2: "accelerate-fsdp", Engine.FSDP1: "accelerate-fsdp"}
"""Engine → the format that says every degree the search gives it."""
WHOLE_SHARDING = 3
"""ZeRO stage at which parameters are sharded too."""


class NotExportable(PlannerError):
    """This format cannot say what this option decided; the detail names what, and which way out there is."""

    status: ClassVar[int] = 409
    code: ClassVar[str] = "not_exportable"
    title: ClassVar[str] = "This option has no launch file of this format"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Where a file comes from."""

    plan: str
    """The plan's id."""
    rank: int
    engine_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One option as a launch file needs it."""

    scenario: Scenario
    stamp: Stamp
    nodes: int
    tokens: int | None
    """Of the whole job; None = no end is planned."""
    hours_high: float | None = None
    """Upper end of the likely hours; None = not known."""
    pricing: str | None = None
    """Kind of the option's price."""
    provider: str | None = None
    region: str | None = None
    notes: list[str] = field(default_factory=list)
    """What the file does not do quite as planned, for its comment."""

    @property
    def recipe(self) -> Recipe:
        """What is the same for every rank."""
        return self.scenario.recipe

    @property
    def architecture(self) -> Architecture | None:
        """The model's shape, where it is known."""
        return self.recipe.model.architecture

    def degree(self, name: str) -> int:
        """A column of the layout: a degree, the count, or a size of the batch."""
        return int(getattr(self.scenario.layout, name)[0, 0])

    @property
    def count(self) -> int:
        """Devices."""
        return self.degree("count")

    @property
    def devices_per_node(self) -> int:
        """Devices of each node. Raises NotExportable where nodes would differ."""
        if self.count % self.nodes:
            raise NotExportable(
                f"{self.count} devices do not share evenly into {self.nodes} nodes: choose another count"
            )
        return self.count // self.nodes

    @property
    def accelerator(self) -> str:
        """Slug of the device."""
        machine = self.scenario.machine
        return slug(machine.accelerators[int(machine.accelerator_index[0, 0])].slug)

    @property
    def vendor(self) -> str:
        """Of the device."""
        machine = self.scenario.machine
        return machine.accelerators[int(machine.accelerator_index[0, 0])].vendor

    @property
    def model(self) -> str:
        """Slug of the model; `model` where the request gave it by its shape."""
        return slug(self.recipe.model.slug or "model")

    @property
    def sequences(self) -> int:
        """Global batch."""
        return int(self.scenario.layout.global_batch_size[0, 0])

    @property
    def steps(self) -> int | None:
        """Optimizer steps of the whole job."""
        if self.tokens is None:
            return None
        return math.ceil(self.tokens / int(self.scenario.layout.tokens_per_step[0, 0]))

    @property
    def name(self) -> str:
        """Name of the job: letters, digits and dashes, at most 40 of them."""
        return f"shardplan-{slug(self.stamp.plan)[:8]}-{self.stamp.rank}"

    @property
    def recomputes_all(self) -> bool:
        """Whether every block is recomputed; false where none is. Raises NotExportable for anything between."""
        recompute = self.recipe.recompute
        if recompute.mode is RecomputeMode.NONE:
            return False
        core = recompute.mode is RecomputeMode.SELECTIVE and not recompute.modules
        if core and self.recipe.attention is Attention.FLASH:
            self.note("Recomputing the attention core is what flash attention does by itself: nothing is set for it.")
            return False
        if recompute.mode is RecomputeMode.FULL and recompute.every == 1 and recompute.layers is None:
            return True
        raise NotExportable(
            "this format knows recomputation of every block or of none, and the option has "
            f"{_recompute_words(recompute)}: choose an option with full or none"
        )

    def without(self, *degrees: str) -> None:
        """Raise NotExportable where one of these degrees is above one."""
        for name in degrees:
            if self.degree(name) > 1:
                own = OWN_FORMAT.get(self.recipe.engine)
                raise NotExportable(
                    f"this format has no {name}, and the option has {name}={self.degree(name)}: choose an option with "
                    f"{name}=1{f', or the {own} file, which has it' if own else ''}"
                )

    def note(self, text: str) -> None:
        """Say something in the file's comment, once."""
        if text not in self.notes:
            self.notes.append(text)

    def noted_engine(self, *engines: str) -> None:
        """Say so where the option was planned for another engine than the file drives."""
        planned = self.recipe.engine.value
        if planned not in engines:
            self.note(
                f"Planned for {planned}; this file asks {engines[0]} for the same sharding. Estimate it for "
                f"{engines[0]} before you rely on its memory."
            )

    def comment(self) -> list[str]:
        """The lines that name the plan, without a comment sign."""
        layout = ", ".join(
            f"{name} {self.degree(name)}"
            for name in ("dp_replicate", "dp_shard", "tp", "cp", "pp", "vpp", "ep")
            if self.degree(name) > 1
        )
        recipe, stamp = self.recipe, self.stamp
        precision = slug(recipe.precision.name or "custom")
        return [
            f"Shardplan plan {slug(stamp.plan)}, option {stamp.rank}, engine version {stamp.engine_version}.",
            f"{self.model} on {self.count} x {self.accelerator} ({self.nodes} x {self.devices_per_node}): "
            f"{recipe.engine.value}, ZeRO {recipe.zero_stage}{f', {layout}' if layout else ''}.",
            f"{recipe.optimizer.name}, {precision}, micro-batch {self.degree('micro_batch_size')} x "
            f"{self.degree('micro_batches')}, sequence {self.degree('sequence_length')}, "
            f"recompute {recipe.recompute.mode.value}.",
            *_adapter_words(recipe),
            *self.notes,
        ]


def _adapter_words(recipe: Recipe) -> list[str]:
    """What the script must train, where it is not all weights: no launcher's configuration says it."""
    adapter = recipe.adapter
    if adapter is None:
        return []
    targets = adapter.targets if isinstance(adapter.targets, str) else ", ".join(map(slug, adapter.targets))
    return [
        f"The script trains {adapter.method} of rank {adapter.rank} on {targets}, over a base held in "
        f"{adapter.base_dtype}; this file launches it."
    ]


def _recompute_words(recompute: Recompute) -> str:
    """What an option recomputes, value by value."""
    parts = [recompute.mode.value]
    parts += [f"every {recompute.every}"] if recompute.every != 1 else []
    parts += [f"{recompute.layers} layers"] if recompute.layers is not None else []
    return " ".join([*parts, *recompute.modules])


def slug(text: str) -> str:
    """The text, where it is safe in every format. Raises NotExportable where it is not."""
    if not SLUG.fullmatch(text):
        raise NotExportable("a name of this option is no slug and cannot enter a launch file")
    return text


def commented(lines: Iterable[str], sign: str = "#") -> str:
    """Lines behind a comment sign, each ending in a newline."""
    return "".join(f"{sign} {line}\n" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format: every module of `formats/` has one, named FORMAT."""

    key: str
    """As in the address: `/exports/{key}/`."""
    title: str
    media_type: str
    suffix: str
    write: Callable[[Launch], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A rendered launch file."""

    name: str
    media_type: str
    text: str
