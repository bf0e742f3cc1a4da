"""What would make a candidate fit, or what it could give back: small changes, estimated anew, cheapest first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accounting.facts.optimizers import find_optimizer
from accounting.facts.refusals import eight_bit_adamw
from accounting.implementation import keeps_code
from accounting.ledger import fill
from accounting.memory import MEMORY_LINES
from accounting.memory.context import Context
from accounting.memory.device import device_bytes
from accounting.memory.step import FUSED_STEP_ENGINES
from accounting.scenario import Offload, Recipe, Recompute, Scenario
from accounting.step_time import step_time
from accounting.variants import legal, variants_of
from accounting.vocabulary import Attention, Engine, Place, RecomputeMode

if TYPE_CHECKING:
    from accounting.estimate import Explained

LAST_STAGE = 3
SHARDED_STAGES: dict[Engine, tuple[int, ...]] = {
    Engine.DEEPSPEED: (0, 1, 2, 3),
    Engine.FSDP1: (2, 3),
    Engine.FSDP2: (2, 3),
    Engine.MEGATRON: (0, 1),
}
"""Stages an engine can go up to, one after the other."""


WORTH_IT = 0.05
"""Least share of what is too much that a change beside others takes away."""


@dataclass(frozen=True)
class Evaluated:
    """Candidates of one recipe, and their worst stages' device bytes, (N,)."""

    scenario: Scenario
    context: Context
    bytes: NDArray[np.int64]

    @cached_property
    def seconds(self) -> NDArray[np.float64]:
        """Of a step; NaN where they are not known. [(N,)]"""
        return step_time(self.scenario, self.context.partition).step_seconds[:, 0]


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate with some changes made."""

    change: str
    among: Evaluated | Explained
    row: int

    @property
    def bytes(self) -> int:
        """Device bytes of its worst stage."""
        among = self.among
        return int(among.bytes[self.row] if isinstance(among, Evaluated) else among.device.total[self.row].max())

    @property
    def seconds(self) -> float:
        """Of a step, without the price of a full card; NaN where they are not known."""
        among = self.among
        of_all = among.seconds if isinstance(among, Evaluated) else among.timing.step_seconds[:, 0]
        return float(of_all[self.row])

    @property
    def scenario(self) -> Scenario:
        """Of one row."""
        return self.among.scenario.take(slice(self.row, self.row + 1))


def advice(found: Explained) -> list[list[dict[str, Any]]]:
    """What would make each candidate fit, or what one that fits could give back; cheapest in time first.

    Rows: `change` in the request's own words, `saves_bytes` and `takes_bytes` of the worst stage's device bytes (one of
    them is 0: memory is saved, or spent on speed), `time_ratio` of the step (null where the time is not known), `fits`
    with that change alone; where no change is enough alone, one more row of several. Empty where the capacity is
    unknown and where nothing but states is known of the model.
    """
    advised: list[list[dict[str, Any]]] = [[] for _ in range(found.candidates)]
    if not found.context.has_activations:
        return advised
    limits = found.limit_bytes[: found.candidates, 0]
    before = found.device.total[: found.candidates].max(axis=1)
    for luxury, chosen in ((True, before <= limits), (False, before > limits)):
        candidates = np.flatnonzero(chosen & (limits >= 0))
        if candidates.size:
            for candidate, tried in _tried(found, candidates, luxury=luxury).items():
                need = Need(int(before[candidate]), int(limits[candidate]), _seconds(found, candidate))
                advised[candidate] = _given_back(tried, need) if luxury else _savings(tried, need)
    return advised


@dataclass(frozen=True, slots=True)
class Need:
    """A candidate as it is: driver-visible bytes of its worst stage, the most it may need, and its step's seconds."""

    bytes: int
    limit: int
    seconds: float


def _seconds(found: Explained, candidate: int) -> float:
    return float(found.timing.step_seconds[candidate, 0])


def _row(one: Tried, need: Need) -> dict[str, Any]:
    ratio = one.seconds / need.seconds
    return {
        "change": one.change,
        "saves_bytes": max(need.bytes - one.bytes, 0),
        "takes_bytes": max(one.bytes - need.bytes, 0),
        "time_ratio": ratio if math.isfinite(ratio) else None,
        "fits": one.bytes <= need.limit,
    }


def _tried(found: Explained, candidates: NDArray[np.int64], *, luxury: bool) -> dict[int, list[Tried]]:
    """Every change that is a layout and a recipe of its engine, by candidate: recipes first, then layouts."""
    tried: dict[int, list[Tried]] = {int(candidate): [] for candidate in candidates}
    scenario = found.scenario.take(candidates)
    for change, members in (_undone if luxury else recipe_changes)(scenario.recipe):
        changed = replace(scenario, recipe=changed_recipe(scenario.recipe, **members))
        runs = np.flatnonzero(legal(changed))
        if runs.size:
            among = _evaluated(changed.take(runs))
            for row, candidate in enumerate(candidates[runs]):
                tried[int(candidate)].append(Tried(change, among, row))
    row = found.candidates
    for variants in found.variants:
        for place, candidate in enumerate(variants.candidates):
            if variants.change.luxury is luxury and int(candidate) in tried:
                tried[int(candidate)].append(Tried(variants.name(place), found, row + place))
        row += len(variants.candidates)
    return tried


def _evaluated(scenario: Scenario) -> Evaluated:
    context = Context(scenario)
    return Evaluated(scenario, context, device_bytes(context, fill(MEMORY_LINES, context)).total.max(axis=1))


def _savings(tried: list[Tried], need: Need) -> list[dict[str, Any]]:
    """What makes a candidate smaller; with one more row of several changes where none is enough alone."""
    smaller = [one for one in tried if one.bytes < need.bytes]
    if smaller and all(one.bytes > need.limit for one in smaller):
        smaller += _together(smaller, need)
    rows = [_row(one, need) for one in smaller]
    return sorted(rows, key=lambda row: (not row["fits"], row["time_ratio"] or 1.0, -row["saves_bytes"]))


def _together(tried: list[Tried], need: Need) -> list[Tried]:
    """The cheapest changes in time, one after the other, until it fits; empty where all of them are not enough.

    A change that takes away less than WORTH_IT of what is still too much is left out.
    """
    best: Tried | None = None
    for one in sorted(tried, key=lambda row: row.seconds):
        if best is None:
            best = one if need.bytes - one.bytes >= WORTH_IT * (need.bytes - need.limit) else None
            continue
        further = _further(best, one.change)
        if further is None or best.bytes - further.bytes < WORTH_IT * (best.bytes - need.limit):
            continue
        best = further
        if best.bytes <= need.limit:
            return [best]
    return []


def _further(best: Tried, change: str) -> Tried | None:
    """The same with one change more; None where the two do not go together."""
    again = dict(changes(best.scenario)).get(change)
    if again is None or not legal(again)[0]:
        return None
    return Tried(f"{best.change}, {change}", _evaluated(again), 0)


def _given_back(tried: list[Tried], need: Need) -> list[dict[str, Any]]:
    """Savings that a candidate could do without and step faster, most time first."""
    rows = [_row(one, need) for one in tried if need.bytes < one.bytes <= need.limit]
    faster = [row for row in rows if row["time_ratio"] is not None and row["time_ratio"] < 1]
    return sorted(faster, key=lambda row: row["time_ratio"])


def luxuries(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Changes of a scenario of one row that take memory and may save time: the reverse of what makes a run fit."""
    return _changed(scenario, luxury=True)


def changes(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Every change that makes a scenario of one row smaller, named as the request would say it."""
    return _changed(scenario, luxury=False)


def _changed(scenario: Scenario, *, luxury: bool) -> Iterator[tuple[str, Scenario]]:
    recipe = scenario.recipe
    for change, members in (_undone if luxury else recipe_changes)(recipe):
        yield change, replace(scenario, recipe=changed_recipe(recipe, **members))
    for variants in variants_of(scenario, luxury=luxury):
        yield variants.name(0), variants.scenario


def _undone(recipe: Recipe) -> Iterator[tuple[str, dict[str, Any]]]:
    offload = recipe.offload
    if recipe.recompute.mode is not RecomputeMode.NONE:
        yield "recompute=none", {"recompute": Recompute(mode=RecomputeMode.NONE)}
    if recipe.recompute.mode is RecomputeMode.FULL and recipe.engine is Engine.MEGATRON:
        yield "recompute=selective", {"recompute": Recompute(mode=RecomputeMode.SELECTIVE)}
    lower = [stage for stage in SHARDED_STAGES.get(recipe.engine, ()) if stage < recipe.zero_stage]
    if lower and offload == Offload():
        yield f"sharding.zero_stage={lower[-1]}", {"zero_stage": lower[-1]}
    for name in ("activations", "parameters", "optimizer"):
        if getattr(offload, name) is not Place.NONE:
            # Offloaded weights take the optimizer along where the engine moves both.
            together = (
                {"parameters": Place.NONE, "optimizer": Place.NONE} if name == "parameters" else {name: Place.NONE}
            )
            yield f"offload.{name}=none", {"offload": replace(offload, **together)}
            break


def recipe_changes(recipe: Recipe) -> Iterator[tuple[str, dict[str, Any]]]:
    """Members of a recipe that could be given another value, and the name of each change."""
    options = recipe.options
    fused = {"options": replace(options, loss="fused")}
    # A fused loss names Megatron-Core where plain modules were priced: another code base, not a change.
    if options.loss != "fused" and keeps_code(recipe, changed_recipe(recipe, **fused)):
        yield "options.loss=fused", fused
    several = options.fused is None and options.foreach is not False and not options.compile
    if several and recipe.engine not in FUSED_STEP_ENGINES:
        yield "options.fused=true", {"options": replace(options, fused=True)}
    if recipe.attention is Attention.EAGER:
        yield "attention=flash", {"attention": Attention.FLASH}
    if recipe.recompute.mode is RecomputeMode.NONE and recipe.engine is Engine.MEGATRON:
        yield "recompute=selective", {"recompute": Recompute(mode=RecomputeMode.SELECTIVE)}
    if recipe.recompute.mode is not RecomputeMode.FULL:
        yield "recompute=full", {"recompute": Recompute(mode=RecomputeMode.FULL)}
    if recipe.optimizer.name == "adamw":
        eight_bit = eight_bit_adamw(recipe.engine)
        yield f"optimizer={eight_bit}", {"optimizer": find_optimizer(eight_bit), "optimizer_options": {}}
    stages = SHARDED_STAGES.get(recipe.engine, ())
    for stage in stages:
        if stage > recipe.zero_stage:
            yield f"sharding.zero_stage={stage}", {"zero_stage": stage}
    yield from offload_changes(recipe)


def offload_changes(recipe: Recipe) -> Iterator[tuple[str, dict[str, Any]]]:
    """States, then weights, to host memory, where the engine can."""
    offload = recipe.offload
    if recipe.engine is Engine.DEEPSPEED and recipe.zero_stage > 0 and offload.optimizer is Place.NONE:
        yield "offload.optimizer=cpu", {"offload": replace(offload, optimizer=Place.CPU)}
    if recipe.engine in (Engine.FSDP1, Engine.FSDP2) and offload.parameters is Place.NONE:
        yield "offload.parameters=cpu", {"offload": replace(offload, optimizer=Place.CPU, parameters=Place.CPU)}
    if recipe.engine is Engine.DEEPSPEED and recipe.zero_stage == LAST_STAGE and offload.parameters is Place.NONE:
        yield "offload.parameters=cpu", {"offload": replace(offload, optimizer=Place.CPU, parameters=Place.CPU)}


def changed_recipe(recipe: Recipe, **members: Any) -> Recipe:
    """The recipe with some members changed; its inventory is worked out anew."""
    kept = {item.name: getattr(recipe, item.name) for item in fields(Recipe) if item.init}
    return Recipe(**(kept | members))
