"""What would make a candidate fit: one small change of recipe or batch at a time, estimated anew, cheapest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from accounting.constraints import reasons
from accounting.facts.optimizers import find_optimizer
from accounting.facts.refusals import eight_bit_adamw
from accounting.implementation import adds_separate_gradients, runs_modules
from accounting.ledger import fill
from accounting.memory import MEMORY_LINES
from accounting.memory.context import Context
from accounting.memory.device import device_bytes
from accounting.scenario import Recipe, Recompute, Scenario
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


def advice(estimate: Estimate, index: int = 0) -> list[dict[str, Any]]:
    """Changes that lower the driver's reading of one candidate that does not fit, cheapest in time first.

    Rows: `change` in the request's own words, `saves_bytes` of the worst stage's device bytes, `time_ratio` of the step
    (null where the time is not known), `fits` with that change alone. Empty where the candidate fits, where the
    capacity is unknown, and where nothing but states is known of the model.
    """
    limit = int(estimate.limit_bytes[index, 0])
    before = int(estimate.device_bytes[index, 0])
    if limit < 0 or before <= limit or not estimate.context.has_activations:
        return []
    scenario = estimate.scenario.take(slice(index, index + 1))
    seconds = float(np.broadcast_to(estimate.timing.step_seconds, (len(estimate.scenario), 1))[index, 0])
    rows = []
    for change, changed in changes(scenario):
        if int(reasons(changed.recipe, changed.layout)[0, 0]):
            continue
        context = Context(changed)
        after = int(device_bytes(context, fill(MEMORY_LINES, context)).total.max())
        if after >= before:
            continue
        ratio = float(step_time(changed, context.partition).step_seconds[0, 0]) / seconds
        known = bool(np.isfinite(ratio))
        rows.append(
            {
                "change": change,
                "saves_bytes": before - after,
                "time_ratio": ratio if known else None,
                "fits": after <= limit,
            }
        )
    return sorted(rows, key=lambda row: (not row["fits"], row["time_ratio"] or 1.0, -row["saves_bytes"]))


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
    # A fused loss names Megatron-Core where plain modules were priced: another code base, not a change.
    if options.loss != "fused" and not runs_modules(recipe) and not adds_separate_gradients(recipe):
        yield "options.loss=fused", {"options": replace(options, loss="fused")}
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
