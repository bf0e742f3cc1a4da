"""A scenario written back as the request that reproduces it, every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from accounting.catalog import Catalog, NodeType, Offer
from accounting.facts.knobs import KNOBS
from accounting.model import Adapter
from accounting.optimizer_laws import complete_options
from accounting.options import Options
from accounting.scenario import Offload, Recipe, Recompute, Scenario
from accounting.vocabulary import RecomputeMode
from planner.requests.precisions import precision_request
from planner.search.problem import Pool

DEGREES = ("dp_replicate", "dp_shard", "tp", "cp", "pp", "vpp", "ep", "etp")


def estimate_request(
    scenario: Scenario, row: int, model_request: Any, catalog: Catalog, pool: Pool | None = None
) -> dict[str, Any]:
    """The estimate request of one candidate. Facts that a request stated over the catalog's are not in it."""
    recipe, layout, machine = scenario.recipe, scenario.layout, scenario.machine
    node = machine.node_types[machine.node_index[row, 0]]
    offer = machine.offers[machine.offer_index[row, 0]]
    degrees: dict[str, Any] = {name: int(getattr(layout, name)[row, 0]) for name in DEGREES}
    pipeline: dict[str, Any] = {"schedule": recipe.schedule.value}
    if recipe.stage_layers is not None:
        pipeline["layout"] = list(recipe.stage_layers)
    return {
        "model": model_request,
        "hardware": {
            "accelerator": machine.accelerators[machine.accelerator_index[row, 0]].slug,
            "count": int(layout.count[row, 0]),
            **(_place(node, offer, catalog) if pool is None else {"node_type": pool.node_type.slug, "pool": pool.slug}),
        },
        "headroom": recipe.headroom,
        "parallelism": {**degrees, "sequence_parallel": bool(layout.sequence_parallel[row, 0])},
        "sharding": {"engine": recipe.engine.value, "zero_stage": recipe.zero_stage},
        "pipeline": pipeline,
        "precision": precision_request(recipe.precision),
        "optimizer": optimizer_request(recipe),
        "batch": _batch(scenario, row),
        "recompute": recompute_request(recipe.recompute),
        "attention": recipe.attention.value,
        "offload": offload_request(recipe.offload),
        "adapter": adapter_request(recipe.adapter),
        "extra_models": [asdict(extra) for extra in recipe.extra_models],
        "options": options_request(recipe.options),
    }


def _place(node: NodeType | None, offer: Offer | None, catalog: Catalog) -> dict[str, Any]:
    """A machine of the catalog by its slug; one cut from it for a price follows from the price."""
    known = node is not None and node.slug in catalog.node_types
    return {"node_type": node.slug if node is not None and known else None, "offer": offer_request(offer)}


def offer_request(offer: Offer | None) -> dict[str, Any] | None:
    if offer is None:
        return None
    return {
        "provider": offer.provider,
        "region": offer.region,
        "instance": offer.instance,
        "pricing": offer.pricing_kind,
        "commitment": offer.commitment,
    }


def _batch(scenario: Scenario, row: int) -> dict[str, Any]:
    layout, recipe = scenario.layout, scenario.recipe
    return {
        "sequence_length": int(layout.sequence_length[row, 0]),
        "micro_batch_size": int(layout.micro_batch_size[row, 0]),
        "global_batch_size": int(layout.global_batch_size[row, 0]),
        "packed": recipe.packed,
        "mean_sequence_length": recipe.mean_sequence_length,
    }


def optimizer_request(recipe: Recipe) -> str | dict[str, Any]:
    """The name alone where every option is the library's default."""
    defaults = complete_options(recipe.optimizer, {})
    changed = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in recipe.optimizer_options.items()
        if name not in defaults or value != defaults[name]
    }
    return {"name": recipe.optimizer.name, **changed} if changed else recipe.optimizer.name


def recompute_request(recompute: Recompute) -> str | dict[str, Any]:
    written: dict[str, Any] = {"mode": recompute.mode.value}
    if recompute.mode is RecomputeMode.FULL and recompute.layers is not None:
        written["layers"] = recompute.layers
    elif recompute.mode is RecomputeMode.FULL and recompute.every > 1:
        written["every"] = recompute.every
    elif recompute.modules:
        written["modules"] = list(recompute.modules)
    return written if len(written) > 1 else recompute.mode.value


def offload_request(offload: Offload) -> dict[str, str]:
    return {name: place.value for name, place in asdict(offload).items()}


def adapter_request(adapter: Adapter | None) -> dict[str, Any] | None:
    if adapter is None:
        return None
    targets = adapter.targets if isinstance(adapter.targets, str) else list(adapter.targets)
    return {"method": adapter.method, "rank": adapter.rank, "targets": targets, "base_dtype": adapter.base_dtype}


def options_request(options: Options) -> dict[str, Any]:
    """The knobs that differ from the engine's defaults."""
    defaults: Mapping[str, Any] = asdict(Options())
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name in KNOBS
        if (value := getattr(options, name)) != defaults[name]
    }
