"""What would make a candidate fit, or what it could give back: small changes, estimated anew, cheapest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from accounting.constraints import reasons
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
from accounting.vocabulary import Attention, Engine, Place, RecomputeMode

if TYPE_CHECKING:
    from accounting.estimate import Estimate

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


@dataclass(frozen=True, slots=True)
class Tried:
    """A scenario of one row with some changes made, and its worst stage's device bytes."""

    change: str
    scenario: Scenario
    context: Context
    bytes: int

    def seconds(self) -> float:
        """Seconds of a step; NaN where they are not known."""
        return float(step_time(self.scenario, self.context.partition).step_seconds[0, 0])


def advice(estimate: Estimate, index: int = 0) -> list[dict[str, Any]]:
    """What would make one candidate fit, or what a candidate that fits could give back; cheapest in time first.

    Rows: `change` in the request's own words, `saves_bytes` of the worst stage's device bytes (negative where memory is
    given back for speed), `time_ratio` of the step (null where the time is not known), `fits` with that change alone;
    where no change is enough alone, one more row of several. Empty where the capacity is unknown and where nothing but
    states is known of the model.
    """
    limit = int(estimate.limit_bytes[index, 0])
    before = int(estimate.device_bytes[index, 0])
    if limit < 0 or not estimate.context.has_activations:
        return []
    scenario = estimate.scenario.take(slice(index, index + 1))
    seconds = float(np.broadcast_to(estimate.timing.step_seconds, (len(estimate.scenario), 1))[index, 0])
    if before <= limit:
        return _given_back(scenario, before, limit, seconds)
    tried = [one for one in _tried(changes(scenario)) if one.bytes < before]
    if tried and all(one.bytes > limit for one in tried):
        tried += _together(tried, before, limit)
    rows = [_row(one, before, limit, seconds) for one in tried]
    return sorted(rows, key=lambda row: (not row["fits"], row["time_ratio"] or 1.0, -row["saves_bytes"]))


def _row(one: Tried, before: int, limit: int, seconds: float) -> dict[str, Any]:
    ratio = one.seconds() / seconds
    return {
        "change": one.change,
        "saves_bytes": before - one.bytes,
        "time_ratio": ratio if np.isfinite(ratio) else None,
        "fits": one.bytes <= limit,
    }


def _tried(made: Iterable[tuple[str, Scenario]]) -> Iterator[Tried]:
    """Every change that is a layout and a recipe of its engine, with the bytes it needs."""
    for change, changed in made:
        if not int(reasons(changed.recipe, changed.layout)[0, 0]):
            context = Context(changed)
            yield Tried(change, changed, context, int(device_bytes(context, fill(MEMORY_LINES, context)).total.max()))


def _together(tried: list[Tried], before: int, limit: int) -> list[Tried]:
    """The cheapest changes in time, one after the other, until it fits; empty where all of them are not enough.

    A change that takes away less than WORTH_IT of what is still too much is left out.
    """
    best: Tried | None = None
    for one in sorted(tried, key=lambda row: row.seconds()):
        if best is None:
            best = one if before - one.bytes >= WORTH_IT * (before - limit) else None
            continue
        again = dict(changes(best.scenario))
        further = next(_tried([(one.change, again[one.change])]), None) if one.change in again else None
        if further is None or best.bytes - further.bytes < WORTH_IT * (best.bytes - limit):
            continue
        best = replace(further, change=f"{best.change}, {one.change}")
        if best.bytes <= limit:
            return [best]
    return []


def _given_back(scenario: Scenario, before: int, limit: int, seconds: float) -> list[dict[str, Any]]:
    """Savings that a candidate could do without and step faster, most time first."""
    tried = [one for one in _tried(luxuries(scenario)) if before < one.bytes <= limit]
    rows = [_row(one, before, limit, seconds) for one in tried]
    faster = [row for row in rows if row["time_ratio"] is not None and row["time_ratio"] < 1]
    return sorted(faster, key=lambda row: row["time_ratio"])


def luxuries(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Changes that take memory and may save time: the reverse of what makes a run fit."""
    recipe, layout = scenario.recipe, scenario.layout
    for change, members in _undone(recipe):
        yield change, replace(scenario, recipe=changed_recipe(recipe, **members))
    if int(layout.micro_batches[0, 0]) % 2 == 0:
        doubled = replace(layout, micro_batch_size=layout.micro_batch_size * 2, micro_batches=layout.micro_batches // 2)
        yield f"batch.micro_batch_size={int(doubled.micro_batch_size[0, 0])}", replace(scenario, layout=doubled)


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


def changes(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Every change that makes sense for a scenario of one row, named as the request would say it."""
    recipe = scenario.recipe
    for change, members in recipe_changes(recipe):
        yield change, replace(scenario, recipe=changed_recipe(recipe, **members))
    layout = scenario.layout
    if int(layout.micro_batch_size[0, 0]) > 1 and int(layout.micro_batch_size[0, 0]) % 2 == 0:
        halved = replace(layout, micro_batch_size=layout.micro_batch_size // 2, micro_batches=layout.micro_batches * 2)
        yield f"batch.micro_batch_size={int(halved.micro_batch_size[0, 0])}", replace(scenario, layout=halved)
    if int(layout.tp[0, 0]) > 1 and not bool(layout.sequence_parallel[0, 0]):
        split = replace(layout, sequence_parallel=np.ones_like(layout.sequence_parallel))
        yield "parallelism.sequence_parallel=true", replace(scenario, layout=split)
    if int(layout.dp_replicate[0, 0]) > 1:
        whole = replace(layout, dp_shard=layout.data_parallel, dp_replicate=np.ones_like(layout.dp_replicate))
        yield f"parallelism.dp_shard={int(whole.dp_shard[0, 0])}", replace(scenario, layout=whole)


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
