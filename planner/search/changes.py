"""One change at a time: against the winner (what if)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accounting.catalog import NodeType
from accounting.cost import RunCost
from accounting.estimate import Estimate, estimate
from accounting.facts.optimizers import find_optimizer
from accounting.facts.refusals import eight_bit_adamw
from accounting.implementation import keeps_code
from accounting.scenario import Recompute, Scenario, replace_recipe
from accounting.vocabulary import RecomputeMode, Schedule
from planner.search.pricing import billed_usd, cost_of
from planner.search.problem import PlanProblem

Edit = Callable[[Scenario], Scenario]
PRICE_SWING = 0.2


@dataclass(frozen=True, slots=True)
class Outcome:
    """One estimate with its cost, as plain numbers; NaN where unknown."""

    scenario: Scenario
    """Of the one row."""
    device_bytes: int
    need: int
    limit: int
    hours: float
    hours_band: tuple[float, float]
    usd: float
    usd_band: tuple[float, float]
    run: RunCost
    waiting: float
    """Share of the step that waits for links."""

    @property
    def fits(self) -> bool | None:
        """Need against limit; None where the capacity is unknown."""
        return None if self.limit < 0 else self.need <= self.limit


def outcome(problem: PlanProblem, scenario: Scenario) -> Outcome:
    """Estimate and price one scenario of one row."""
    return outcome_at(problem, estimate(scenario), 0)


def outcome_at(problem: PlanProblem, known: Estimate, index: int) -> Outcome:
    """Price one row of an estimate."""
    row = slice(index, index + 1)
    scenario, timing = known.scenario.take(row), known.timing
    seconds = timing.step_seconds[row]
    cost = cost_of(problem, scenario, seconds)
    upper = problem.constraints.risk == "upper"
    hours = float(cost.hours[0, 0])
    low, high = (cost.hours * edge[row] / seconds for edge in timing.band)
    return Outcome(
        scenario=scenario,
        device_bytes=int(known.device_bytes[index, 0]),
        need=int((known.device_bytes_high if upper else known.device_bytes)[index, 0]),
        limit=int(known.limit_bytes[index, 0]),
        hours=hours,
        hours_band=(float(low[0, 0]), float(high[0, 0])),
        usd=float(cost.usd[0, 0]) if np.isfinite(cost.usd[0, 0]) else float(cost.usd_per_hour[0, 0]),
        usd_band=(billed_usd(scenario, cost, low), billed_usd(scenario, cost, high)),
        run=cost,
        waiting=float((timing.parts["exposed_communication"][row] / seconds)[0, 0]),
    )


def what_if(problem: PlanProblem, base: Outcome, rival_usd: float) -> list[dict[str, Any]]:
    """Each change to the best option: bytes, hours and dollars against it, whether it fits, whether it stays the best.

    `estimate` is the changed request, null where a request cannot say the change.

    `rival_usd`: dollars above which another price would win, infinite where there is none. `still_best` is null where
    the change would move the others too.
    """
    scenario = base.scenario
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
    """Half the rate of the link that binds: between nodes where there are several, else inside the node.

    The node's own facts are halved as well: what a link reaches of its rate is judged by them.
    """
    machine = scenario.machine
    across = int(scenario.layout.count[0, 0]) > int(machine.devices_per_node[0, 0])
    names = ("inter_bytes_per_second_total", "inter_bytes_per_second_per_accelerator")
    slower = tuple(_halved(node, names if across else ("intra_bytes_per_second",)) for node in machine.node_types)
    column = "inter_bandwidth" if across else "intra_bandwidth"
    halved: dict[str, Any] = {column: getattr(machine, column) / 2, "node_types": slower}
    return replace(scenario, machine=replace(machine, **halved))


def _halved(node: NodeType | None, names: tuple[str, ...]) -> NodeType | None:
    if node is None:
        return None
    rates = {name: getattr(node, name) for name in names}
    return replace(node, **{name: rate / 2 for name, rate in rates.items() if rate is not None})


def _difference(changed: float, base: float) -> float | None:
    return changed - base if np.isfinite(changed) and np.isfinite(base) else None
