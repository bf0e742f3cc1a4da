"""The catalog's tables as the API shows them: columns and filters are rows here, never read off a class by accident."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from accounting.catalog import Catalog
from planner.api.answers import FLAG, INTEGER, NUMBER, TEXT, Schema, mapping, maybe, page_of, record

DATE: Schema = {"type": "string", "format": "date"}


@dataclass(frozen=True, slots=True)
class Listing:
    """One table: where its rows come from, what names a row, what is shown of it and what it may be filtered by."""

    name: str
    title: str
    rows: Callable[[Catalog], Iterable[Any]]
    key: tuple[str, ...]
    columns: Mapping[str, Schema]
    filters: tuple[str, ...]
    """Columns compared for equality, whatever the case."""
    at_least: tuple[str, ...] = ()
    """Columns with a `min_…` filter; a row whose value is unknown is left out by it."""

    def show(self, row: Any) -> dict[str, Any]:
        return {name: _plain(getattr(row, name)) for name in self.columns}

    def key_of(self, row: Any) -> tuple[str, ...]:
        return tuple(str(getattr(row, name)) for name in self.key)

    def components(self) -> dict[str, Schema]:
        one = record(**self.columns)
        return {self.title: one, f"{self.title}List": page_of({"$ref": f"#/components/schemas/{self.title}"})}


def _plain(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


ACCELERATORS = Listing(
    name="accelerators",
    title="Accelerator",
    rows=lambda catalog: catalog.accelerators.values(),
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
    rows=lambda catalog: catalog.node_types.values(),
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
    rows=lambda catalog: catalog.offers,
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
        "source": TEXT,
        "note": TEXT,
    },
    filters=("provider", "region", "instance", "accelerator", "node_type", "pricing_kind", "commitment"),
)
LISTINGS = (ACCELERATORS, NODE_TYPES, OFFERS)
