"""One change at a time: against the winner (what if), or against an infeasible problem (what would work)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accounting.cost import RunCost
from accounting.estimate import Estimate, estimate
from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.facts.refusals import eight_bit_adamw
from accounting.implementation import keeps_code
from accounting.model import Adapter
from accounting.scenario import Offload, Recipe, Recompute, Scenario
from accounting.vocabulary import Engine, Place, RecomputeMode, Schedule
from planner.search.machines import machine_choices
from planner.search.pricing import billed_usd, cost_of
from planner.search.problem import PlanProblem
from planner.search.rank import Candidate, Ranking
from planner.search.scan import Cancelled, scan

Edit = Callable[[Scenario], Scenario]
PRICE_SWING = 0.2
WHOLE_BASES = ("fp32", "bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One estimate with its cost, as plain numbers; NaN where unknown."""

    estimate: Estimate
    device_bytes: int
    need: int
    limit: int
    hours: float
    hours_band: tuple[float, float]
    usd: float
    usd_band: tuple[float, float]
    run: RunCost
    """Of the one row."""

    @property
    def fits(self) -> bool | None:
        """Need against limit; None where the capacity is unknown."""
        return None if self.limit < 0 else self.need <= self.limit


def outcome(problem: PlanProblem, scenario: Scenario) -> Outcome:
    """Estimate and price one scenario of one row."""
    known = estimate(scenario)
    timing = known.timing
    cost = cost_of(problem, scenario, timing.step_seconds)
    upper = problem.constraints.risk == "upper"
    hours = float(cost.hours[0, 0])
    low, high = (cost.hours * edge / timing.step_seconds for edge in timing.band)
    return Outcome(
        estimate=known,
        device_bytes=int(known.device_bytes[0, 0]),
        need=int((known.device_bytes_high if upper else known.device_bytes)[0, 0]),
        limit=int(known.limit_bytes[0, 0]),
        hours=hours,
        hours_band=(float(low[0, 0]), float(high[0, 0])),
        usd=float(cost.usd[0, 0]) if np.isfinite(cost.usd[0, 0]) else float(cost.usd_per_hour[0, 0]),
        usd_band=(billed_usd(scenario, cost, low), billed_usd(scenario, cost, high)),
        run=cost,
    )


def what_if(problem: PlanProblem, base: Outcome, rival_usd: float) -> list[dict[str, Any]]:
    """Each change to the best option: bytes, hours and dollars against it, whether it fits, whether it stays the best.

    `estimate` is the changed request, null where a request cannot say the change.

    `rival_usd`: dollars above which another price would win, infinite where there is none. `still_best` is null where
    the change would move the others too.
    """
    scenario = base.estimate.scenario
    rows = [_changed(problem, base, name, edit(scenario)) for name, edit in edits(scenario)]
    if int(scenario.layout.count[0, 0]) > 1:
        # No request has other links than its machine: this row has no estimate.
        rows.append(_changed(problem, base, "Links at half speed", _half_links(scenario)) | {"estimate": None})
    if np.isfinite(base.usd):
        for word, factor in (("+", 1 + PRICE_SWING), ("\u2212", 1 - PRICE_SWING)):
            usd = base.usd * factor
            rows.append(
                {
                    "change": f"Price {word} {PRICE_SWING:.0%}".replace("%", " %"),
                    "memory_bytes": 0,
                    "hours": 0.0 if np.isfinite(base.hours) else None,
                    "usd": usd - base.usd,
                    "fits": base.fits,
                    "still_best": None if problem.objective != "cost" else usd <= rival_usd,
                    "estimate": None,
                }
            )
    return rows


def _changed(problem: PlanProblem, base: Outcome, name: str, scenario: Scenario) -> dict[str, Any]:
    changed = outcome(problem, scenario)
    fits = changed.fits
    return {
        "change": name,
        "memory_bytes": changed.device_bytes - base.device_bytes,
        "hours": _difference(changed.hours, base.hours) if fits else None,
        "usd": _difference(changed.usd, base.usd) if fits else None,
        "fits": fits,
        "still_best": None,
        "estimate": problem.write_request(scenario, 0),
    }


def edits(scenario: Scenario) -> Iterator[tuple[str, Edit]]:
    """Changes that make sense for a scenario, gentlest on speed first."""
    recipe = scenario.recipe
    if recipe.model.architecture is None:
        return
    fused = replace(recipe.options, loss="fused")
    if recipe.options.loss == "standard" and keeps_code(recipe, replace_recipe(recipe, options=fused)):
        yield "Fused loss", _recipe(options=fused)
    if recipe.optimizer.name == "adamw":
        eight_bit = find_optimizer(eight_bit_adamw(recipe.engine))
        yield "AdamW 8-bit", _recipe(optimizer=eight_bit, optimizer_options={})
    if recipe.recompute.mode is not RecomputeMode.FULL:
        yield "Full recompute", _recipe(recompute=Recompute(mode=RecomputeMode.FULL))
    else:
        yield "No recompute", _recipe(recompute=Recompute(mode=RecomputeMode.NONE))
    if _halves(scenario):
        yield "Micro-batch × 2", _double_micro_batch
    yield "Sequence × 2", _double_sequence


def _halves(scenario: Scenario) -> bool:
    """Whether half as many micro-batches are a whole number of them, and of rounds where the schedule interleaves."""
    layout = scenario.layout
    rounds = int(layout.pp[0, 0]) if scenario.recipe.schedule is Schedule.INTERLEAVED else 1
    return int(layout.micro_batches[0, 0]) % (2 * rounds) == 0


def replace_recipe(recipe: Recipe, **changes: Any) -> Recipe:
    """A recipe with some members changed; its inventory is worked out anew."""
    members = {name: getattr(recipe, name) for name in Recipe.__dataclass_fields__ if name != "inventory"}
    return Recipe(**(members | changes))


def _recipe(**changes: Any) -> Edit:
    return lambda scenario: replace(scenario, recipe=replace_recipe(scenario.recipe, **changes))


def _double_micro_batch(scenario: Scenario) -> Scenario:
    layout = scenario.layout
    doubled = replace(layout, micro_batch_size=layout.micro_batch_size * 2, micro_batches=layout.micro_batches // 2)
    return replace(scenario, layout=doubled)


def _double_sequence(scenario: Scenario) -> Scenario:
    """The same tokens a step where the accumulation is even, else twice as many."""
    layout = scenario.layout
    even = _halves(scenario)
    batches = layout.micro_batches // 2 if even else layout.micro_batches
    return replace(scenario, layout=replace(layout, sequence_length=layout.sequence_length * 2, micro_batches=batches))


def _half_links(scenario: Scenario) -> Scenario:
    """Half the rate of the link that binds: between nodes where there are several, else inside the node."""
    machine = scenario.machine
    if int(scenario.layout.count[0, 0]) > int(machine.devices_per_node[0, 0]):
        return replace(scenario, machine=replace(machine, inter_bandwidth=machine.inter_bandwidth / 2))
    return replace(scenario, machine=replace(machine, intra_bandwidth=machine.intra_bandwidth / 2))


def _difference(changed: float, base: float) -> float | None:
    return changed - base if np.isfinite(changed) and np.isfinite(base) else None


def variants(problem: PlanProblem) -> Iterator[tuple[str, PlanProblem]]:
    """Changed problems that might be feasible, gentlest first; none holds a candidate that the problem itself held.

    More devices are not among them: see `larger`.
    """
    every = Recompute(mode=RecomputeMode.FULL)
    had_full = any(recompute.mode is RecomputeMode.FULL for recompute in problem.recomputes)
    if not had_full:
        yield "full recompute", replace(problem, recomputes=(every,))
    if problem.global_batch_tokens is not None:
        yield "any global batch", replace(problem, global_batch_tokens=None)
    base = problem if had_full else replace(problem, recomputes=(*problem.recomputes, every))
    asked = {optimizer.name for optimizer, _ in problem.optimizers}
    eight = dict.fromkeys(eight_bit_adamw(engine) for engine in problem.engines)
    if not asked & eight.keys():
        yield "8-bit AdamW", replace(base, optimizers=tuple((find_optimizer(name), {}) for name in eight))
    shards = (Engine.FSDP2, Engine.DEEPSPEED)
    sharded = replace(base, zero_stages=(3,), engines=shards)
    if not had_full or 3 not in problem.zero_stages or not set(shards) & set(problem.engines):  # noqa: PLR2004
        yield "ZeRO 3", sharded
    host = Offload(optimizer=Place.CPU)
    whole = Offload(optimizer=Place.CPU, parameters=Place.CPU)
    for name, offload in (("states", host), ("states and parameters", whole)):
        if offload not in problem.offloads:
            yield f"ZeRO 3 with {name} on the host", replace(sharded, offloads=(offload,))
    pure = PRESETS["bf16-pure"]
    if pure not in problem.precisions:
        yield "bf16 without a master copy", replace(sharded, precisions=(pure,))
    yield from _adapters(base)


def _adapters(base: PlanProblem) -> Iterator[tuple[str, PlanProblem]]:
    if base.model.architecture is None:
        return
    if base.adapter is not None:
        if base.adapter.base_dtype in WHOLE_BASES and base.adapter.method == "lora":
            low = replace(base.adapter, method="qlora", base_dtype="nf4")
            yield f"QLoRA, rank {low.rank}, instead of LoRA", replace(base, adapter=low, engines=_fsdp(base))
        return
    lora = Adapter(method="lora", rank=16, targets="all-linear", base_dtype="bf16")
    qlora = Adapter(method="qlora", rank=16, targets="all-linear", base_dtype="nf4")
    yield "LoRA, rank 16, instead of all weights", replace(base, adapter=lora)
    yield "QLoRA, rank 16, instead of all weights", replace(base, adapter=qlora, engines=_fsdp(base), zero_stages=(3,))


def _fsdp(base: PlanProblem) -> tuple[Engine, ...]:
    """The engines asked for that shard 4-bit weights."""
    return tuple(engine for engine in base.engines if engine in (Engine.FSDP1, Engine.FSDP2)) or (Engine.FSDP2,)


def larger(problem: PlanProblem) -> Iterator[tuple[str, PlanProblem]]:
    """The same problem with 2, 4, 8 and 16 times the devices, the counts it had left out."""
    had = problem.max_count if problem.pool is None else min(problem.max_count, problem.pool.count)
    for factor in (2, 4, 8, 16):
        most, least = had * factor, had * factor // 2 + 1
        pool = None if problem.pool is None else replace(problem.pool, count=most)
        place = "devices" if pool is None else "devices in the pool"
        yield f"up to {most} {place}", replace(problem, max_count=most, min_count=least, pool=pool)


def what_would_work(
    problem: PlanProblem, misses: list[tuple[str, Candidate]], cancelled: Cancelled
) -> list[dict[str, Any]]:
    """Single changes that make an infeasible problem feasible, cheapest first.

    Each is searched with the constraints as they stand. Bytes are against the closest miss in memory.
    """
    if all(choice.offer is None for choice in machine_choices(problem)):
        # Without any price, what works at all is still worth saying.
        problem = replace(problem, objective="time")
    base = next((outcome(problem, one.scenario).device_bytes for reason, one in misses if reason == "memory"), None)
    rows = [_loosened(problem, reason, one) for reason, one in _first_of_each(misses) if reason != "memory"]
    for name, variant in variants(problem):
        row = _best_of(name, variant, base, cancelled)
        if row is not None:
            rows.append(row)
    for name, variant in larger(problem):
        row = _best_of(name, variant, base, cancelled)
        if row is not None:
            # The fewest more devices that do; with still more it would only be dearer or faster.
            rows.append(row)
            break
    return sorted(rows, key=lambda row: (row["usd"] is None, row["usd"] or 0.0, row["hours"] or 0.0))


def _first_of_each(misses: list[tuple[str, Candidate]]) -> list[tuple[str, Candidate]]:
    first: dict[str, Candidate] = {}
    for reason, one in misses:
        first.setdefault(reason, one)
    return list(first.items())


def _loosened(problem: PlanProblem, reason: str, one: Candidate) -> dict[str, Any]:
    """A limit moved as far as its nearest miss needs."""
    change = f"a deadline of {one.hours:,.1f} h" if reason == "deadline" else f"a budget of ${one.usd:,.2f}"
    return {
        "change": change,
        "memory_bytes": None,
        "hours": one.hours if np.isfinite(one.hours) else None,
        "usd": one.usd if np.isfinite(one.usd) else None,
        "fits": True,
        "estimate": problem.write_request(one.scenario, 0),
    }


def _best_of(name: str, variant: PlanProblem, base: int | None, cancelled: Cancelled) -> dict[str, Any] | None:
    found = scan(variant, lambda done, total: None, cancelled)
    ranking = Ranking(found.feasible, found.fleet, variant.objective)
    if not len(ranking):
        return None
    best = ranking.candidate(int(ranking.order[0]))
    result = outcome(variant, best.scenario)
    return {
        "change": name,
        "memory_bytes": result.device_bytes - base if base is not None else None,
        "hours": result.hours if np.isfinite(result.hours) else None,
        "usd": result.usd if np.isfinite(result.usd) else None,
        "fits": True,
        "estimate": variant.write_request(best.scenario, 0),
    }
