"""Ten plans of the shipped catalog, worked through for docs/scenarios.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from accounting.catalog import NodeType
from accounting.model import Model, model_from_architecture, model_from_config
from accounting.naming import resolve_name
from hardware.records import catalog_from_csv
from planner.requests import RequestContext, read_plan
from planner.search import search
from planner.search.problem import Pool
from planner.specs.rows import read_models

ETHERNET_BYTES_PER_SECOND = 3.125e9
"""One port of 25 Gbit/s for a node of eight devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One worked plan: what is asked, and what a practitioner makes of the answer."""

    key: str
    title: str
    request: Mapping[str, Any]
    checks: str
    """What to check before believing it."""
    right: str
    """Why the answer is right."""


def shipped_context() -> RequestContext:
    """Models and catalog as shipped, without a database, and one pool behind slow Ethernet."""
    models = {row["slug"]: row for row in read_models()}

    def find_model(text: str) -> Model:
        row = models[resolve_name(text, models, kind="model")]
        if row["config"] is not None:
            return model_from_config(row["config"], slug=row["slug"])
        return model_from_architecture(row["architecture"] or {}, slug=row["slug"])

    catalog = catalog_from_csv()
    node = next(row for row in catalog.node_types.values() if _eight(row, "h100-sxm5-80gb"))
    slow = replace(
        node,
        inter_bytes_per_second_total=ETHERNET_BYTES_PER_SECOND,
        inter_bytes_per_second_per_accelerator=ETHERNET_BYTES_PER_SECOND / 8,
    )
    accelerator = catalog.accelerators["h100-sxm5-80gb"]
    pool = Pool(slug="ethernet", accelerator=accelerator, node_type=slow, count=32, usd_per_device_hour=2.0)
    return RequestContext(catalog=catalog, find_model=find_model, pools={"ethernet": pool})


def _eight(node: NodeType, accelerator: str) -> bool:
    return node.accelerator == accelerator and node.accelerator_count == 8 and node.scaleup_domain_size == 8  # noqa: PLR2004


def answer_of(scenario: Scenario, context: RequestContext) -> dict[str, Any]:
    """The plan's answer."""
    return search(read_plan(scenario.request, context), lambda done, total: None, lambda: False)


def identity(option: Mapping[str, Any] | None) -> str:
    """What makes an option this one, without its numbers: devices, engine, degrees, batch, recomputation, offload."""
    if option is None:
        return "infeasible"
    estimate = option["estimate"]
    hardware, sharding, degrees = estimate["hardware"], estimate["sharding"], estimate["parallelism"]
    names = ("dp_replicate", "dp_shard", "tp", "cp", "pp", "vpp", "ep")
    wide = ", ".join(f"{name} {degrees[name]}" for name in names if degrees[name] > 1) or "one rank"
    moved = ", ".join(f"{part} on {place}" for part, place in estimate["offload"].items() if place != "none")
    words = [
        f"{hardware['count']} × {hardware['accelerator']}",
        f"{sharding['engine']}, ZeRO {sharding['zero_stage']}",
        wide,
        f"micro-batch {estimate['batch']['micro_batch_size']}",
        f"recompute {_mode(estimate['recompute'])}",
        str(estimate["precision"]),
    ]
    return " · ".join([*words, moved] if moved else words)


def _mode(recompute: Any) -> str:
    return str(recompute) if isinstance(recompute, str) else str(recompute["mode"])
