"""The search's answer worked out the slow way: one estimate request a candidate, read and estimated alone.

Nothing of planner.search is used but the problem it is asked, and its number of device counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from accounting import estimate
from accounting.catalog import Offer
from accounting.cost import Interruptions, run_cost
from accounting.machine import engine_runs_on
from accounting.scenario import Scenario
from accounting.vocabulary import Engine
from planner.errors import InvalidRequest
from planner.requests import read_estimate
from planner.requests.echo import offer_request
from planner.search.machines import MachineChoice, counts
from planner.search.problem import PlanProblem
from planner.search.recipes import MEGATRON_FORM
from tests.planner.requests.samples import CONTEXT

NEVER_STARTS = ("deepspeed", 0, "bf16-pure")
"""What an estimate warns of and a plan leaves out. Source: deepspeed 0.19.8 refuses it when it is initialised."""

Row = tuple[float, float, int]
"""Hours, dollars, devices."""


@dataclass
class Naive:
    """Every candidate that meets every limit, and how many were tried."""

    rows: list[Row]
    tried: int

    @property
    def frontier(self) -> set[tuple[float, float]]:
        pairs = {row[:2] for row in self.rows}
        return {
            one
            for one in pairs
            if not any((other[0] <= one[0] and other[1] <= one[1]) and other != one for other in pairs)
        }

    def best(self, objective: str) -> tuple[float, ...]:
        orders = {"cost": (1, 0, 2), "time": (0, 1, 2), "devices": (2, 1, 0)}
        return min(tuple(row[index] for index in orders[objective]) for row in self.rows)


def naive(problem: PlanProblem) -> Naive:
    """One loop over everything that the request's own lists allow."""
    found = Naive([], 0)
    for request, offer, node_devices, domain in requests(problem):
        found.tried += 1
        degrees = request["parallelism"]
        if degrees["tp"] > domain or domain % degrees["tp"]:
            continue
        if degrees["vpp"] > 1 and not interleaves(problem, request):
            continue
        try:
            scenario = read_estimate(request, CONTEXT)
        except InvalidRequest:
            continue
        row = judge(problem, scenario, offer, node_devices)
        if row is not None:
            found.rows.append(row)
    return found


def interleaves(problem: PlanProblem, request: dict[str, Any]) -> bool:
    """Whole blocks in every virtual stage and whole rounds of the pipeline."""
    degrees, batch = request["parallelism"], request["batch"]
    assert problem.model.inventory is not None
    ranks = degrees["dp_replicate"] * degrees["dp_shard"]
    rounds, rest = divmod(batch["global_batch_size"], ranks * batch["micro_batch_size"])
    blocks = len(problem.model.inventory.pattern)
    return not rest and rounds % degrees["pp"] == 0 and blocks % (degrees["pp"] * degrees["vpp"]) == 0


def judge(problem: PlanProblem, scenario: Scenario, offer: Offer, node_devices: int) -> Row | None:
    known = estimate(scenario)
    upper = problem.constraints.risk == "upper"
    if not known.fits(upper=upper)[0, 0]:
        return None
    answer = known.row(0)
    host = int(scenario.machine.host_memory_bytes[0, 0])
    if 0 <= host < answer["memory"]["host_bytes_per_node"]:
        return None
    count = int(scenario.layout.count[0, 0])
    per_device = -(-count // offer.accelerator_count) * offer.usd_per_hour / count
    goodput = problem.goodput
    cost = run_cost(
        step_seconds=known.timing.step_seconds,
        tokens_per_step=scenario.layout.tokens_per_step,
        count=scenario.layout.count,
        usd_per_device_hour=np.array([[per_device]]),
        power_watts=scenario.machine.power_watts,
        tokens=problem.tokens,
        interruptions=Interruptions(
            checkpoint_seconds=goodput.checkpoint_seconds,
            restart_seconds=goodput.restart_seconds,
            failures_per_device_hour=goodput.failures_per_device_hour,
        ),
    )
    hours = float(cost.hours[0, 0])
    usd = paid(offer, hours) * float(cost.usd_per_hour[0, 0])
    limits = problem.constraints
    late = limits.deadline_hours is not None and hours > limits.deadline_hours
    dear = limits.budget_usd is not None and usd > limits.budget_usd
    return None if late or dear or not np.isfinite(hours * usd) else (hours, usd, count)


def paid(offer: Offer, hours: float) -> float:
    """Hours that an offer bills."""
    least = max(hours, (offer.billing_minimum_seconds or 0) / 3600)
    period = (offer.billing_period_seconds or 0) / 3600
    return math.ceil(least / period * (1 - 1e-12)) * period if period and math.isfinite(least) else least


def terms(offer: Offer) -> tuple[float, float]:
    return offer.billing_period_seconds or 0, offer.billing_minimum_seconds or 0


def prices(problem: PlanProblem) -> Iterator[Offer]:
    """The cheapest price of each machine, kind and way of billing, but for those another beats in price and terms."""
    cheapest: dict[tuple[Any, ...], Offer] = {}
    for offer, node in zip(problem.offers, problem.offer_nodes, strict=True):
        place = node.slug if node else offer.instance
        key = (offer.accelerator, place, offer.accelerator_count, offer.pricing_kind, offer.commitment, terms(offer))
        if key not in cheapest or offer.usd_per_hour < cheapest[key].usd_per_hour:
            cheapest[key] = offer
    for key, offer in cheapest.items():
        rivals = [other for held, other in cheapest.items() if held[:-1] == key[:-1] and other is not offer]
        finer = [rival for rival in rivals if all(one <= two for one, two in zip(terms(rival), terms(offer)))]  # noqa: B905
        if not any(rival.usd_per_hour <= offer.usd_per_hour for rival in finer):
            yield offer


def requests(problem: PlanProblem) -> Iterator[tuple[dict[str, Any], Offer, int, int]]:
    """(estimate request, its price, devices of a node, devices of its fast domain) of every combination."""
    assert None not in (problem.tp, problem.pp, problem.cp, problem.ep, problem.micro_batch_sizes)
    recipes = list(
        product(
            problem.request["engines"],
            problem.zero_stages,
            problem.request["precisions"],
            problem.request["optimizers"],
            problem.request["search"]["recompute"],
            problem.request["search"]["offload"],
        )
    )
    axes = product(problem.tp, problem.pp, problem.cp, problem.ep, problem.micro_batch_sizes)  # type: ignore[arg-type]
    layouts = list(axes)
    for offer in prices(problem):
        accelerator = CONTEXT.catalog.accelerators[offer.accelerator]
        node, _ = CONTEXT.catalog.node_of_offer(offer)
        devices, domain = (node.accelerator_count, node.scaleup_domain_size) if node else (1, 1)
        choice = MachineChoice(accelerator, node, offer, offer.accelerator_count)
        for recipe, count, layout in product(recipes, counts(problem, choice), layouts):
            if recipe[:3] == NEVER_STARTS:
                continue
            if engine_runs_on(Engine(recipe[0]), accelerator):
                for request in spelled(problem, recipe, count, layout, devices):
                    place = {"accelerator": offer.accelerator, "count": count, "offer": offer_request(offer)}
                    yield {**request, "hardware": place}, offer, devices, domain


def spelled(
    problem: PlanProblem, recipe: tuple[Any, ...], count: int, layout: tuple[int, ...], devices: int
) -> Iterator[dict[str, Any]]:
    """The layouts of one combination: plain, hybrid over nodes, interleaved."""
    engine, stage, precision, optimizer, recompute, offload = recipe
    tp, pp, cp, ep, micro = layout
    data, rest = divmod(count, tp * pp * cp)
    if rest or not data or problem.global_batch_tokens is None:
        return
    nodes = max(count // devices, 1)
    ways = [(data, 1) if stage == 0 and engine not in ("fsdp1", "fsdp2") else (1, data)]
    if engine in ("fsdp1", "fsdp2") and nodes > 1 and data % nodes == 0 and data > nodes:
        ways.append((nodes, data // nodes))
    virtual = [1, 2, 4, 8] if engine in ("megatron", "ideal") and pp > 1 else [1]
    for (replicate, shard), vpp in product(ways, virtual):
        yield {
            "model": problem.model_request,
            "headroom": problem.constraints.memory_headroom,
            "parallelism": {
                "dp_replicate": replicate,
                "dp_shard": shard,
                "tp": tp,
                "cp": cp,
                "pp": pp,
                "vpp": vpp,
                "ep": ep,
                "etp": 1 if ep > 1 else tp,
                "sequence_parallel": tp > 1,
            },
            "sharding": {"engine": engine, "zero_stage": stage},
            # An estimate takes autocast under Megatron as a question; a plan proposes what Megatron has for it.
            "precision": MEGATRON_FORM.get(precision, precision) if engine == "megatron" else precision,
            "optimizer": optimizer,
            "batch": {
                "sequence_length": problem.sequence_length,
                "micro_batch_size": micro,
                "global_batch_size": problem.global_batch_tokens // problem.sequence_length,
            },
            "recompute": recompute,
            "attention": problem.attention.value,
            "offload": {"optimizer": offload} if isinstance(offload, str) else offload,
            # A plan launches Megatron-LM itself, whose norms are fused.
            "options": {"fused_norm": True} if engine == "megatron" else {},
        }
