"""The catalog's tables as the API shows them: columns and filters are rows here, never read off a class by accident."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from accounting.facts.optimizers import OPTIMIZERS, describe
from hardware.snapshot import catalog_snapshot
from planner.api.answers import ANY, FLAG, INTEGER, NUMBER, TEXT, Schema, array, mapping, maybe, page_of, record, ref
from planner.specs.selectors import visible_models
from planner.teams.models import Team

DATE: Schema = {"type": "string", "format": "date"}


@dataclass(frozen=True, slots=True)
class Listing:
    """One table: where its rows come from, what names a row, what is shown of it and what it may be filtered by."""

    name: str
    title: str
    rows: Callable[[Team], Iterable[Any]]
    key: tuple[str, ...]
    columns: Mapping[str, Schema]
    filters: tuple[str, ...]
    """Columns compared for equality, whatever the case."""
    at_least: tuple[str, ...] = ()
    """Columns with a `min_…` filter; a row whose value is unknown is left out by it."""
    details: Mapping[str, Schema] = field(default_factory=dict)
    """Columns too long for a list: shown where one row is asked for."""

    def show(self, row: Any, *, whole: bool = False) -> dict[str, Any]:
        return {name: _plain(value_of(row, name)) for name in (*self.columns, *(self.details if whole else ()))}

    def key_of(self, row: Any) -> tuple[str, ...]:
        return tuple(str(value_of(row, name)) for name in self.key)

    def components(self) -> dict[str, Schema]:
        item = f"{self.title}Summary" if self.details else self.title
        schemas = {item: record(**self.columns), f"{self.title}List": page_of(ref(item))}
        return schemas | ({self.title: record(**self.columns, **self.details)} if self.details else {})


def value_of(row: Any, name: str) -> Any:
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


def _plain(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


ACCELERATORS = Listing(
    name="accelerators",
    title="Accelerator",
    rows=lambda team: catalog_snapshot().accelerators.values(),
    key=("slug",),
    columns={
        "slug": TEXT,
        "name": TEXT,
        "vendor": TEXT,
        "architecture": TEXT,
        "kind": TEXT,
        "form_factor": TEXT,
        "parent": maybe(TEXT),
        "parent_fraction": maybe(NUMBER),
        "software_devices": INTEGER,
        "memory_bytes": maybe(INTEGER),
        "memory_gb_marketing": maybe(NUMBER),
        "memory_bandwidth_bytes_per_second": maybe(NUMBER),
        "fp32_tflops": maybe(NUMBER),
        "tf32_tflops": maybe(NUMBER),
        "fp16_tflops": maybe(NUMBER),
        "bf16_tflops": maybe(NUMBER),
        "fp8_tflops": maybe(NUMBER),
        "fp4_tflops": maybe(NUMBER),
        "int8_tops": maybe(NUMBER),
        "measured_max_bf16_tflops": maybe(NUMBER),
        "scaleup_link": TEXT,
        "scaleup_bytes_per_second": maybe(NUMBER),
        "pcie_generation": maybe(INTEGER),
        "pcie_bytes_per_second": maybe(NUMBER),
        "power_watts": maybe(NUMBER),
        "supports_bf16": FLAG,
        "supports_fp8": FLAG,
        "compute_capability": maybe(TEXT),
        "default_node": maybe(TEXT),
        "confidence": TEXT,
        "source": TEXT,
        "note": TEXT,
        "unknown_reasons": mapping(TEXT),
    },
    filters=("vendor", "kind", "architecture", "form_factor"),
    at_least=("memory_bytes",),
)
NODE_TYPES = Listing(
    name="node-types",
    title="NodeType",
    rows=lambda team: catalog_snapshot().node_types.values(),
    key=("slug",),
    columns={
        "slug": TEXT,
        "provider": TEXT,
        "instance": TEXT,
        "accelerator": TEXT,
        "accelerator_count": INTEGER,
        "vcpus": maybe(INTEGER),
        "host_memory_bytes": maybe(INTEGER),
        "local_nvme_bytes": maybe(INTEGER),
        "intra_link": TEXT,
        "intra_interconnect": maybe(TEXT),
        "intra_bytes_per_second": maybe(NUMBER),
        "topology": TEXT,
        "scaleup_domain_size": INTEGER,
        "inter_link": TEXT,
        "inter_interconnect": maybe(TEXT),
        "inter_bytes_per_second_total": maybe(NUMBER),
        "inter_bytes_per_second_per_accelerator": maybe(NUMBER),
        "assumed": FLAG,
        "confidence": TEXT,
        "source": TEXT,
        "note": TEXT,
        "unknown_reasons": mapping(TEXT),
    },
    filters=("provider", "accelerator", "topology"),
    at_least=("accelerator_count", "host_memory_bytes"),
)
OFFERS = Listing(
    name="offers",
    title="Offer",
    rows=lambda team: catalog_snapshot().offers,
    key=("accelerator", "provider", "region", "instance", "pricing_kind", "commitment", "accelerator_count"),
    columns={
        "provider": TEXT,
        "region": TEXT,
        "instance": TEXT,
        "node_type": maybe(TEXT),
        "accelerator": TEXT,
        "accelerator_count": INTEGER,
        "pricing_kind": TEXT,
        "commitment": TEXT,
        "usd_per_hour": NUMBER,
        "usd_per_accelerator_hour": NUMBER,
        "price_date": maybe(DATE),
        "date_precision": TEXT,
        "price_not_before": maybe(DATE),
        "price_not_after": maybe(DATE),
        "billing_period_seconds": maybe(INTEGER),
        "billing_minimum_seconds": maybe(INTEGER),
        "billing_source": TEXT,
        "source": TEXT,
        "note": TEXT,
    },
    filters=("provider", "region", "instance", "accelerator", "node_type", "pricing_kind", "commitment"),
)
MODELS = Listing(
    name="models",
    title="Model",
    rows=lambda team: visible_models(team).values(),
    key=("slug",),
    columns={
        "slug": TEXT,
        "name": TEXT,
        "family": TEXT,
        "aliases": array(TEXT),
        "exact_parameters": INTEGER,
        "published_parameters": maybe(INTEGER),
        "active_parameters_per_token": maybe(INTEGER),
        "source": TEXT,
        "source_date": maybe(DATE),
        "checked_date": maybe(DATE),
        "confidence": TEXT,
        "note": TEXT,
        "origin": TEXT,
    },
    filters=("family", "origin", "confidence"),
    at_least=("exact_parameters",),
    details={"config": maybe(ANY), "architecture": maybe(ANY), "facts": ANY},
)
OPTIMIZER_ROWS = Listing(
    name="optimizers",
    title="Optimizer",
    rows=lambda team: [describe(row) for row in OPTIMIZERS.values()],
    key=("name",),
    columns={
        "name": TEXT,
        "library": TEXT,
        "library_version": TEXT,
        "title": TEXT,
        "aliases": array(TEXT),
        "state_rule": TEXT,
        "paged": FLAG,
        "measured": FLAG,
        "source": TEXT,
        "caveat": TEXT,
    },
    filters=("library", "state_rule"),
    details={
        "slots": array(ANY),
        "constants": array(ANY),
        "options": array(ANY),
        "temporaries": array(ANY),
        "moved_elements": maybe(NUMBER),
        "allocated_at_init": FLAG,
        "frees_gradients": FLAG,
        "needs_matrices": FLAG,
        "stops_under": array(ANY),
        "parameter_dtypes": array(TEXT),
    },
)
LISTINGS = (ACCELERATORS, NODE_TYPES, OFFERS, MODELS, OPTIMIZER_ROWS)
