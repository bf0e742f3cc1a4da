"""The `hardware` member: which device, in which machine, at which price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accounting.catalog import Accelerator, Catalog, NodeType, Offer
from accounting.machine import Overrides, engine_runs_on, overridden_accelerator, overridden_node
from accounting.naming import NameLookupError, nearest_names
from accounting.vocabulary import Engine
from planner.requests.context import RequestContext
from planner.requests.fields import shown
from planner.requests.notes import Notes
from planner.search.problem import Pool


@dataclass(frozen=True, slots=True)
class Hardware:
    accelerator: Accelerator
    node_type: NodeType | None
    offer: Offer | None


def read_hardware(
    given: Mapping[str, Any], options: Mapping[str, Any], engine: Engine, context: RequestContext, notes: Notes
) -> Hardware | None:
    """The device, machine and price; None (and faults) where the names do not lead to them."""
    catalog = context.catalog
    accelerator = _accelerator(given, catalog, notes)
    pool = read_pool(given.get("pool"), context, notes)
    named = _named_node(given, catalog, notes)
    if accelerator is None:
        return None
    if not engine_runs_on(engine, accelerator):
        detail = f"{engine} does not run on {accelerator.slug} ({accelerator.kind}); choose another engine or ideal"
        notes.faults.add("/sharding/engine", "engine_unsupported", detail)
    if named is not None and named.accelerator != accelerator.slug:
        detail = f"{named.slug} holds {named.accelerator}, not {accelerator.slug}; leave it out or name another"
        notes.faults.add("/hardware/node_type", "node_mismatch", detail)
    offer = _named_offer(given, accelerator, catalog, notes)
    count = int(given.get("count", 1))
    if "count" not in given:
        notes.assume("one device")
    if pool is not None:
        _judge_pool(pool, given, accelerator, notes)
        offer = pool.offer
    elif offer is None and given.get("offer") is None:
        offer = cheapest_offer(catalog, accelerator, named, count)
        if offer is not None:
            price = f"{offer.usd_per_hour:g} USD an hour"
            notes.assume(f"priced by {offer.provider} {offer.instance} in {offer.region}, on demand, {price}")
    overrides = _overrides(given, options)
    node = pool.node_type if pool else named or _assumed_node(given, offer, accelerator, catalog, notes)
    if node is None and count > 1 and overrides.devices_per_node is None:
        detail = f"{accelerator.slug} has no default machine in the catalog; name a node_type"
        notes.faults.add("/hardware/node_type", "required", detail)
    return Hardware(
        accelerator=overridden_accelerator(accelerator, overrides),
        node_type=overridden_node(node, overrides) if node is not None else None,
        offer=offer,
    )


def read_pool(slug: str | None, context: RequestContext, notes: Notes) -> Pool | None:
    """The team's pool of a name; None (and a fault) where it has none of it."""
    if slug is None:
        return None
    pool = context.pools.get(slug.strip().lower())
    if pool is None:
        near = ", ".join(nearest_names(slug, context.pools)) or "the team has none of a like name"
        notes.faults.add("/hardware/pool", "unknown_name", f"pool {shown(slug)} is not known; nearest: {near}")
    return pool


def _judge_pool(pool: Pool, given: Mapping[str, Any], accelerator: Accelerator, notes: Notes) -> None:
    """What else is named must be what the pool is made of."""
    if pool.accelerator.slug != accelerator.slug:
        detail = f"pool {pool.slug} is of {pool.accelerator.slug}, not {accelerator.slug}: name that, or no pool"
        notes.faults.add("/hardware/pool", "pool_mismatch", detail)
    if given.get("node_type") is not None and given["node_type"].strip().lower() != pool.node_type.slug:
        detail = f"pool {pool.slug} is made of {pool.node_type.slug}: leave node_type out"
        notes.faults.add("/hardware/node_type", "pool_mismatch", detail)
    if given.get("offer") is not None:
        detail = f"pool {pool.slug} has its own price: leave offer out, or the pool"
        notes.faults.add("/hardware/offer", "pool_mismatch", detail)


def cheapest_offer(catalog: Catalog, accelerator: Accelerator, node: NodeType | None, count: int) -> Offer | None:
    """The on-demand price that rents `count` devices for least an hour, whole instances billed.

    A run that fills whole machines is priced by whole machines: single devices from a market make no cluster.
    """
    offers = [offer for offer in catalog.offers_of(accelerator.slug) if offer.pricing_kind == "on-demand"]
    if node is not None:
        offers = [offer for offer in offers if offer.node_type == node.slug]
    machine = node or catalog.default_node(accelerator)
    together = min(count, machine.accelerator_count if machine else 1)
    whole = [offer for offer in offers if offer.accelerator_count >= together]
    return min(whole, key=lambda offer: -(-count // offer.accelerator_count) * offer.usd_per_hour, default=None)


def _accelerator(given: Mapping[str, Any], catalog: Catalog, notes: Notes) -> Accelerator | None:
    if "accelerator" not in given:
        return None
    try:
        return catalog.find_accelerator(given["accelerator"])
    except NameLookupError as error:
        notes.faults.add("/hardware/accelerator", f"{error.code}_name", error.detail)
        return None


def _named_node(given: Mapping[str, Any], catalog: Catalog, notes: Notes) -> NodeType | None:
    if given.get("node_type") is None:
        return None
    try:
        return catalog.find_node_type(given["node_type"])
    except NameLookupError as error:
        notes.faults.add("/hardware/node_type", f"{error.code}_name", error.detail)
        return None


def _named_offer(given: Mapping[str, Any], accelerator: Accelerator, catalog: Catalog, notes: Notes) -> Offer | None:
    wanted = given.get("offer")
    if wanted is None or notes.faults.touches("/hardware/offer"):
        return None
    place = (wanted["provider"], wanted["region"], wanted["instance"])
    kind = (wanted.get("pricing", "on-demand"), wanted.get("commitment", ""))
    for offer in catalog.offers_of(accelerator.slug):
        if (offer.provider, offer.region, offer.instance, offer.pricing_kind, offer.commitment) == (*place, *kind):
            return offer
    instances = {offer.instance for offer in catalog.offers_of(accelerator.slug)}
    near = ", ".join(nearest_names(wanted["instance"], instances, limit=3)) or "none"
    detail = f"the catalog has no such price of {accelerator.slug}; instances with one, nearest first: {near}"
    notes.faults.add("/hardware/offer", "unknown_name", detail)
    return None


def _assumed_node(
    given: Mapping[str, Any], offer: Offer | None, accelerator: Accelerator, catalog: Catalog, notes: Notes
) -> NodeType | None:
    """The machine of a named offer, else the accelerator's default."""
    if offer is not None and given.get("offer") is not None:
        node, assumption = catalog.node_of_offer(offer)
        if assumption is not None:
            notes.assume(assumption)
        return node
    node = catalog.default_node(accelerator)
    if node is not None:
        kind = "an assumed server" if node.assumed else "the catalog's default machine for it"
        notes.assume(f"node type {node.slug}, {kind}: {node.accelerator_count} devices a node")
    return node


def _overrides(given: Mapping[str, Any], options: Mapping[str, Any]) -> Overrides:
    return Overrides(
        **given.get("overrides", {}),
        devices_per_node=options.get("devices_per_node"),
        inter_node_gbps=options.get("inter_node_gbps"),
    )
