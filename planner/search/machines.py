"""The machines a plan may use: every distinct (device, node type, kind of price) at its cheapest price.

Where a dearer price is billed in finer steps, either may be the cheaper one of a short job: both stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from accounting.catalog import Accelerator, NodeType, Offer
from accounting.cost import billing_terms
from planner.search.problem import PlanProblem


@dataclass(frozen=True, slots=True)
class MachineChoice:
    """One kind of node at one kind of price; `others` counts the other prices of the same node and kind."""

    accelerator: Accelerator
    node_type: NodeType | None
    offer: Offer | None
    devices: int
    """Devices that are rented together: an instance, or one where a pool gives them out singly."""
    others: int = 0
    next_usd_per_hour: float | None = None
    """The cheapest of those others."""
    no_price: str = "price_unknown"
    """Why `offer` is None, as a reason of rejection."""

    @property
    def node_devices(self) -> int:
        """Devices of one node; 1 where the node is not known."""
        return self.node_type.accelerator_count if self.node_type else 1

    @property
    def domain(self) -> int:
        """Devices that share the fast link."""
        return self.node_type.scaleup_domain_size if self.node_type else 1


def machine_choices(problem: PlanProblem) -> tuple[MachineChoice, ...]:
    """Machines in a fixed order; a device without any price stands once, without an offer.

    Memory and time do not depend on the price, so one candidate stands for all prices of a node and kind: the cheapest.
    On-demand, spot and reserved stay apart, because they are different promises and not one price.
    """
    if problem.pool is not None:
        pool = problem.pool
        return (MachineChoice(pool.accelerator, pool.node_type, pool.offer, 1),)
    choices = []
    pairs = list(zip(problem.offers, problem.offer_nodes, strict=True))
    for accelerator in problem.accelerators:
        mine = [pair for pair in pairs if pair[0].accelerator == accelerator.slug]
        young = [pair for pair in mine if not too_old(problem, pair[0])]
        if young:
            choices += _by_node(accelerator, young)
            continue
        node = problem.node_types.get(accelerator.slug)
        devices = node.accelerator_count if node else 1
        choices.append(
            MachineChoice(accelerator, node, None, devices, no_price="price_stale" if mine else "price_unknown")
        )
    return tuple(choices)


def too_old(problem: PlanProblem, offer: Offer) -> bool:
    """Whether `max_price_age_days` keeps a price out; one that nobody can date is out too, where a limit is set."""
    limit = problem.constraints.max_price_age_days
    if limit is None:
        return False
    age = price_age_days(offer, problem.as_of)
    return age is None or age > limit


def price_age_days(offer: Offer, as_of: date | None) -> int | None:
    """Days between a price's date and the day of the plan, never negative; None where either is unknown."""
    if offer.price_date is None or as_of is None:
        return None
    return max((as_of - offer.price_date).days, 0)


def _by_node(accelerator: Accelerator, mine: list[tuple[Offer, NodeType | None]]) -> list[MachineChoice]:
    grouped: dict[tuple[str, int, str, str], list[tuple[Offer, NodeType | None]]] = {}
    for offer, node in mine:
        key = (node.slug if node else offer.instance, offer.accelerator_count, offer.pricing_kind, offer.commitment)
        grouped.setdefault(key, []).append((offer, node))
    choices = []
    for key in sorted(grouped):
        offers = sorted(grouped[key], key=lambda pair: (pair[0].usd_per_hour, pair[0].provider, pair[0].region))
        prices = [offer.usd_per_hour for offer, _ in offers] + [None]
        for index in _undominated([billing_terms(offer) for offer, _ in offers]):
            offer, node = offers[index]
            following = prices[index + 1]
            choices.append(MachineChoice(accelerator, node, offer, offer.accelerator_count, len(offers) - 1, following))
    return choices


def _undominated(terms: list[tuple[float, float]]) -> list[int]:
    """Of prices in rising order those that no cheaper one is billed as finely as, by period and minimum."""
    kept: list[int] = []
    for index, (period, minimum) in enumerate(terms):
        if not any(terms[other][0] <= period and terms[other][1] <= minimum for other in kept):
            kept.append(index)
    return kept


def counts(problem: PlanProblem, choice: MachineChoice) -> list[int]:
    """Device counts to try, within the limits: those asked for, else 1, 2, 3, 4, 6, 8, 12, 16 … instances.

    A pool gives its devices out singly, so parts of a node are among them.
    """
    most = problem.max_count if problem.pool is None else min(problem.max_count, problem.pool.count)
    if problem.counts is not None:
        return [count for count in problem.counts if problem.min_count <= count <= most]
    found, step = set(), choice.devices
    instances = 1
    while instances * step <= most:
        found |= {instances * step} | ({instances * 3 // 2 * step} if instances % 2 == 0 else set())
        instances *= 2
    found |= {most // step * step, -(-problem.min_count // step) * step}
    return sorted(count for count in found if problem.min_count <= count <= most and count > 0)
