"""Hours and dollars of the whole job on each candidate, preemptions of spot offers included."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from accounting.cost import Interruptions, RunCost, billed, billed_hours, billing_of, run_cost
from accounting.partition import partition_of
from accounting.scenario import Scenario
from accounting.step_time import Repeated, repeated_of, step_seconds
from accounting.units import Floats
from planner.search.candidates import Candidates
from planner.search.problem import PlanProblem
from planner.search.sites import Fleet

SPOT = "spot"


def cost_of(problem: PlanProblem, scenario: Scenario, step_seconds: Floats) -> RunCost:
    """Hours and dollars of a problem's whole job as it is billed; `step_seconds` is (N, 1)."""
    machine = scenario.machine
    run = _run(problem, scenario, step_seconds)
    return billed(run, billing_of(machine.offers, machine.offer_index), problem.tokens)


def billed_usd(scenario: Scenario, cost: RunCost, hours: Floats) -> float:
    """Dollars of one row if it took `hours` instead; NaN where price or length is unknown."""
    machine = scenario.machine
    paid = billed_hours(hours, billing_of(machine.offers, machine.offer_index))
    return float((paid * cost.usd_per_hour)[0, 0])


def _run(problem: PlanProblem, scenario: Scenario, step_seconds: Floats) -> RunCost:
    """The same by the second.

    Devices of spot offers are lost to preemptions beside failures where the problem says how often.
    """
    usual = _cost(problem, scenario, step_seconds, 0.0)
    taken = problem.goodput.preemptions_per_device_hour
    if not taken:
        return usual
    spot = _on_spot(scenario)
    if not spot.any():
        return usual
    preempted = _cost(problem, scenario, step_seconds, taken)
    columns = {
        item.name: np.where(spot, getattr(preempted, item.name), getattr(usual, item.name)) for item in fields(RunCost)
    }
    return RunCost(**columns)


def _cost(problem: PlanProblem, scenario: Scenario, step_seconds: Floats, preemptions: float) -> RunCost:
    goodput = problem.goodput
    return run_cost(
        step_seconds=step_seconds,
        tokens_per_step=scenario.layout.tokens_per_step,
        count=scenario.layout.count,
        usd_per_device_hour=scenario.machine.usd_per_device_hour,
        power_watts=scenario.machine.power_watts,
        tokens=problem.tokens,
        interruptions=Interruptions(
            checkpoint_seconds=goodput.checkpoint_seconds,
            restart_seconds=goodput.restart_seconds,
            failures_per_device_hour=goodput.failures_per_device_hour,
            preemptions_per_device_hour=preemptions,
        ),
    )


def _on_spot(scenario: Scenario) -> NDArray[np.bool_]:
    """Candidates whose price can be taken back with the device. [(N, 1)]"""
    machine = scenario.machine
    kinds = [offer is not None and offer.pricing_kind == SPOT for offer in machine.offers]
    return np.asarray(kinds, dtype=np.bool_)[machine.offer_index]


def paces(problem: PlanProblem, scenario: Scenario, step_seconds: Floats) -> Floats:
    """Hours of the job, seconds of a step where it has no length. [(N,)]"""
    if problem.tokens is None:
        return step_seconds[:, 0]
    return _run(problem, scenario, step_seconds).hours[:, 0]


def _repeated(scenario: Scenario) -> Repeated | None:
    return None if scenario.recipe.model.architecture is None else repeated_of(scenario)


def priced(problem: PlanProblem, fleet: Fleet, here: Candidates, repeated: Repeated | None = None) -> Candidates:
    """The same rows with their time and cost; `repeated` are their blocks where somebody has timed them already."""
    scenario = fleet.scenario(here.recipe, here.layout, here.machine)
    seconds = step_seconds(
        scenario, partition_of(scenario), need=here.expected.reshape(-1, 1), repeated=repeated or _repeated(scenario)
    )
    cost = cost_of(problem, scenario, seconds)
    columns = (cost.hours, cost.usd, cost.usd_per_hour, seconds)
    bytes_of = (here.need, here.expected, here.limit)
    return Candidates(here.recipe, here.layout, here.machine, *bytes_of, *(c[:, 0] for c in columns))
