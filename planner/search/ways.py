"""Single changes that make an infeasible problem feasible: a limit moved, the job changed, more devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.facts.refusals import eight_bit_adamw
from accounting.model import Adapter
from accounting.scenario import Offload, Recompute
from accounting.vocabulary import Engine, Place, RecomputeMode
from planner.search.changes import outcome
from planner.search.machines import machine_choices
from planner.search.problem import PlanProblem
from planner.search.rank import Candidate, Ranking
from planner.search.scan import Cancelled, scan

WHOLE_BASES = ("fp32", "bf16", "fp16")


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
    rows = [row for reason, _ in _first_of_each(misses) if (row := _loosened(problem, reason, base, cancelled))]
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


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a request: its member, what comes nearest to it, and what it would have to be."""

    member: str
    objective: str
    said: Callable[[dict[str, Any]], str]


LIMITS = {
    "deadline": Limit("deadline_hours", "time", lambda row: f"a deadline of {row['hours']:,.1f} h"),
    "budget": Limit("budget_usd", "cost", lambda row: f"a budget of ${row['usd']:,.2f}"),
    "throughput": Limit(
        "min_tokens_per_second", "time", lambda row: f"at least {row['tokens_per_second']:,.0f} tokens/s"
    ),
}


def _loosened(problem: PlanProblem, reason: str, base: int | None, cancelled: Cancelled) -> dict[str, Any] | None:
    """One limit moved as far as the nearest candidate needs that meets all the others; None where none does."""
    limit = LIMITS.get(reason)
    if limit is None:
        return None
    without: dict[str, Any] = {limit.member: None}
    constraints = replace(problem.constraints, **without)
    row = _best_of(reason, replace(problem, constraints=constraints, objective=limit.objective), base, cancelled)
    return None if row is None else row | {"change": limit.said(row)}


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
        "tokens_per_second": best.tokens_per_second if np.isfinite(best.tokens_per_second) else None,
        "fits": True,
        "estimate": variant.write_request(best.scenario, 0),
    }
