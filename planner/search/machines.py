"""The machines a plan may use: every distinct (device, node type) with the prices it can be rented at."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.catalog import Accelerator, NodeType, Offer
from planner.search.problem import PlanProblem


@dataclass(frozen=True, slots=True)
class MachineChoice:
    """One kind of node and its cheapest price; `others` counts the dearer prices of the same node."""

    accelerator: Accelerator
    node_type: NodeType | None
    offer: Offer | None
    devices: int
    """Devices that are rented together: an instance, or one where a pool gives them out singly."""
    others: int = 0


def machine_choices(problem: PlanProblem) -> tuple[MachineChoice, ...]:
    """Machines in a fixed order; a device without any price stands once, without an offer.

    Memory and time do not depend on the price, so one candidate stands for all prices of a node: the cheapest.
    """
    if problem.pool is not None:
        pool = problem.pool
        return (MachineChoice(pool.accelerator, pool.node_type, _internal_offer(problem), 1),)
    choices = []
    for accelerator in problem.accelerators:
        mine = [
            (offer, node)
            for offer, node in zip(problem.offers, problem.offer_nodes, strict=True)
            if offer.accelerator == accelerator.slug
        ]
        if not mine:
            node = problem.node_types.get(accelerator.slug)
            choices.append(MachineChoice(accelerator, node, None, node.accelerator_count if node else 1))
        choices += _by_node(accelerator, mine)
    return tuple(choices)


def _by_node(accelerator: Accelerator, mine: list[tuple[Offer, NodeType | None]]) -> list[MachineChoice]:
    grouped: dict[tuple[str, int], list[tuple[Offer, NodeType | None]]] = {}
    for offer, node in mine:
        grouped.setdefault((node.slug if node else offer.instance, offer.accelerator_count), []).append((offer, node))
    choices = []
    for key in sorted(grouped):
        offers = sorted(grouped[key], key=lambda pair: (pair[0].usd_per_hour, pair[0].provider, pair[0].region))
        cheapest, node = offers[0]
        choices.append(MachineChoice(accelerator, node, cheapest, cheapest.accelerator_count, len(offers) - 1))
    return choices


def _internal_offer(problem: PlanProblem) -> Offer | None:
    """A pool's own price as an offer of one device."""
    pool = problem.pool
    if pool is None or pool.usd_per_device_hour is None:
        return None
    return Offer(
        provider="pool",
        region=pool.slug,
        instance=pool.slug,
        node_type=pool.node_type.slug,
        accelerator=pool.accelerator.slug,
        accelerator_count=1,
        pricing_kind="internal",
        commitment="",
        usd_per_hour=pool.usd_per_device_hour,
        price_date=None,
        date_precision="undated",
        price_not_before=None,
        price_not_after=None,
        source="the pool's internal price",
    )


def counts(problem: PlanProblem, choice: MachineChoice) -> list[int]:
    """Device counts to try: 1, 2, 3, 4, 6, 8, 12, 16 … instances, and parts of a pool's node, within the limits."""
    most = problem.max_count if problem.pool is None else min(problem.max_count, problem.pool.count)
    found, step = set(), choice.devices
    instances = 1
    while instances * step <= most:
        found |= {instances * step} | ({instances * 3 // 2 * step} if instances % 2 == 0 else set())
        instances *= 2
    found.add(most // step * step)
    return sorted(count for count in found if problem.min_count <= count <= most and count > 0)
