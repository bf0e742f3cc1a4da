"""One change at a time: against the winner (what if), or against the nearest miss (what would work)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accounting.estimate import Estimate, estimate
from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.model import Adapter
from accounting.scenario import Layout, Offload, Recipe, Recompute, Scenario
from accounting.vocabulary import Engine, Place, RecomputeMode
from planner.search.machines import machine_choices
from planner.search.problem import PlanProblem
from planner.search.rank import Candidate, ordered, candidates_of
from planner.search.scan import Found, cost_of, scan

Edit = Callable[[Recipe, Layout], tuple[Recipe, Layout]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One estimate with its cost, as plain numbers; NaN where unknown."""

    estimate: Estimate
    device_bytes: int
    need: int
    limit: int
    hours: float
    usd: float

    @property
    def fits(self) -> bool | None:
        return None if self.limit < 0 else self.need <= self.limit


def outcome(problem: PlanProblem, scenario: Scenario) -> Outcome:
    """Estimate and price one scenario of one row."""
    known = estimate(scenario)
    cost = cost_of(problem, scenario, known.timing)
    upper = problem.constraints.risk == "upper"
    return Outcome(
        estimate=known,
        device_bytes=int(known.device_bytes[0, 0]),
        need=int((known.device_bytes_high if upper else known.device_bytes)[0, 0]),
        limit=int(known.limit_bytes[0, 0]),
        hours=float(cost.hours[0, 0]),
        usd=float(cost.usd[0, 0]) if np.isfinite(cost.usd[0, 0]) else float(cost.usd_per_hour[0, 0]),
    )


def what_if(problem: PlanProblem, scenario: Scenario) -> list[dict[str, Any]]:
    """Each change to one option: bytes, hours and dollars against it, and whether it still fits."""
    base = outcome(problem, scenario)
    rows = []
    for name, edit in edits(scenario):
        recipe, layout = edit(scenario.recipe, scenario.layout)
        changed = outcome(problem, Scenario(recipe=recipe, layout=layout, machine=scenario.machine))
        fits = changed.fits
        rows.append(
            {
                "change": name,
                "memory_bytes": changed.device_bytes - base.device_bytes,
                "hours": _difference(changed.hours, base.hours) if fits else None,
                "usd": _difference(changed.usd, base.usd) if fits else None,
                "fits": fits,
            }
        )
    return rows


def edits(scenario: Scenario) -> Iterator[tuple[str, Edit]]:
    """Changes that make sense for a scenario, gentlest on speed first."""
    recipe = scenario.recipe
    if recipe.model.architecture is None:
        return
    if recipe.options.loss == "standard":
        yield "Fused loss", lambda r, layout: (replace_recipe(r, options=replace(r.options, loss="fused")), layout)
    if recipe.optimizer.name == "adamw":
        yield "AdamW 8-bit", lambda r, layout: (replace_recipe(r, optimizer=find_optimizer("adamw-8bit")), layout)
    if recipe.recompute.mode is not RecomputeMode.FULL:
        yield "Full recompute", _recompute(RecomputeMode.FULL)
    else:
        yield "No recompute", _recompute(RecomputeMode.NONE)
    if int(scenario.layout.micro_batches[0, 0]) % 2 == 0:
        yield "Micro-batch × 2", _double_micro_batch
    yield "Sequence × 2", _double_sequence


def replace_recipe(recipe: Recipe, **changes: Any) -> Recipe:
    """A recipe with some members changed; its inventory is worked out anew."""
    members = {name: getattr(recipe, name) for name in Recipe.__dataclass_fields__ if name != "inventory"}
    return Recipe(**(members | changes))


def _recompute(mode: RecomputeMode) -> Edit:
    return lambda recipe, layout: (replace_recipe(recipe, recompute=Recompute(mode=mode)), layout)


def _double_micro_batch(recipe: Recipe, layout: Layout) -> tuple[Recipe, Layout]:
    doubled = replace(layout, micro_batch_size=layout.micro_batch_size * 2, micro_batches=layout.micro_batches // 2)
    return recipe, doubled


def _double_sequence(recipe: Recipe, layout: Layout) -> tuple[Recipe, Layout]:
    """The same tokens a step where the accumulation is even, else twice as many."""
    even = int(layout.micro_batches[0, 0]) % 2 == 0
    batches = layout.micro_batches // 2 if even else layout.micro_batches
    return recipe, replace(layout, sequence_length=layout.sequence_length * 2, micro_batches=batches)


def _difference(changed: float, base: float) -> float | None:
    return changed - base if np.isfinite(changed) and np.isfinite(base) else None


def variants(problem: PlanProblem) -> Iterator[tuple[str, PlanProblem]]:
    """Changed problems that might be feasible, gentlest first; each searches its own full space."""
    full = (*problem.recomputes, Recompute(mode=RecomputeMode.FULL))
    if all(recompute.mode is not RecomputeMode.FULL for recompute in problem.recomputes):
        yield "full recompute", replace(problem, recomputes=full)
    if problem.global_batch_tokens is not None:
        yield "any global batch", replace(problem, global_batch_tokens=None)
    base = replace(problem, recomputes=full)
    eight = find_optimizer("adamw-8bit")
    if all(optimizer.name != eight.name for optimizer, _ in problem.optimizers):
        yield "8-bit AdamW", replace(base, optimizers=((eight, {}),))
    sharded = replace(base, zero_stages=(3,), engines=(Engine.FSDP2, Engine.DEEPSPEED))
    yield "ZeRO 3", sharded
    yield "ZeRO 3 with states on the host", replace(sharded, offloads=(Offload(optimizer=Place.CPU),))
    host = Offload(optimizer=Place.CPU, parameters=Place.CPU)
    yield "ZeRO 3 with states and parameters on the host", replace(sharded, offloads=(host,))
    pure = PRESETS["bf16-pure"]
    yield "bf16 without a master copy", replace(sharded, precisions=(pure,))
    for factor in (2, 4, 8, 16):
        count = problem.max_count * factor
        yield f"up to {count} devices", replace(base, max_count=count, global_batch_tokens=None)
    if problem.model.architecture is not None and problem.adapter is None:
        lora = Adapter(method="lora", rank=16, targets="all-linear", base_dtype="bf16")
        qlora = Adapter(method="qlora", rank=16, targets="all-linear", base_dtype="nf4")
        engines = tuple(engine for engine in problem.engines if engine in (Engine.FSDP1, Engine.FSDP2)) or (Engine.FSDP2,)
        yield "LoRA, rank 16, instead of all weights", replace(base, adapter=lora)
        yield "QLoRA, rank 16, instead of all weights", replace(base, adapter=qlora, engines=engines, zero_stages=(3,))


def what_would_work(problem: PlanProblem, cancelled: Callable[[], bool], closest: Candidate | None) -> list[dict[str, Any]]:
    """Single changes that make an infeasible problem feasible, cheapest first.

    Each is searched with the constraints as they stand. Bytes are against the closest miss.
    """
    rows = []
    if all(choice.offer is None for choice in machine_choices(problem)):
        # Without any price, what works at all is still worth saying.
        problem = replace(problem, objective="time")
    for name, variant in variants(problem):
        found: Found = scan(variant, lambda done, total: None, cancelled)
        best = next(iter(ordered(variant, candidates_of(found.feasible, found.machines))), None)
        if best is None:
            continue
        result = outcome(variant, best.scenario)
        saved = result.device_bytes - outcome(problem, closest.scenario).device_bytes if closest else None
        rows.append(
            {
                "change": name,
                "memory_bytes": saved,
                "hours": result.hours if np.isfinite(result.hours) else None,
                "usd": result.usd if np.isfinite(result.usd) else None,
                "fits": True,
                "estimate": problem.write_request(best.scenario, 0),
            }
        )
    return sorted(rows, key=lambda row: (row["usd"] is None, row["usd"] or 0.0, row["hours"] or 0.0))
