"""Plain rows → the core's catalog records: units to bytes, seconds and USD, references resolved, retired rows gone."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from accounting import catalog
from accounting.units import GIGA
from hardware.columns import TABLES, Row, read_table, render_table

BITS_PER_BYTE = 8
MICRO = 1e-6
SHIPPED_DATA = Path(__file__).parent / "data"


def catalog_from_csv(folder: Path = SHIPPED_DATA) -> catalog.Catalog:
    """The catalog of a folder of files, revision 0; needs no database. Raises CatalogFileError."""
    return catalog_of_rows({table.name: read_table(folder, table) for table in TABLES}, revision=0)


def content_hash(rows: Mapping[str, list[Row]]) -> str:
    """SHA-256 over the files these rows would be exported as: equal content, equal hash, on any database."""
    digest = sha256()
    for table in TABLES:
        digest.update(render_table(table, rows[table.name]).encode())
    return digest.hexdigest()


def catalog_of_rows(rows: Mapping[str, list[Row]], *, revision: int) -> catalog.Catalog:
    """Rows of all tables as one catalog. A row whose device was retired goes with it."""
    devices = {row["slug"] for row in rows["accelerators"]}
    machines = [row for row in rows["nodes"] if row["accelerator_id"] in devices]
    nodes = {row["slug"] for row in machines}
    return catalog.Catalog.of(
        revision=revision,
        content_hash=content_hash(rows),
        accelerators=[_accelerator(row, nodes) for row in rows["accelerators"]],
        node_types=[_node_type(row) for row in machines],
        offers=[_offer(row, nodes) for row in rows["offers"] if row["accelerator_id"] in devices],
        interconnects=[_interconnect(row) for row in rows["interconnects"]],
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _accelerator(row: Row, nodes: set[str]) -> catalog.Accelerator:
    return catalog.Accelerator(
        slug=row["slug"],
        name=row["name"],
        vendor=row["vendor"],
        architecture=row["architecture"],
        kind=row["kind"],
        form_factor=row["form_factor"],
        parent=row["parent_id"],
        parent_fraction=row["parent_fraction"],
        software_devices=row["software_devices"],
        memory_bytes=row["memory_bytes"],
        memory_gb_marketing=row["memory_gb_marketing"],
        torch_total_gib=row["torch_total_gib"],
        memory_bandwidth_bytes_per_second=_scaled(row["memory_bandwidth_gigabytes_per_second"], GIGA),
        fp32_tflops=row["fp32_teraflops"],
        tf32_tflops=row["tf32_teraflops"],
        fp16_tflops=row["fp16_teraflops"],
        bf16_tflops=row["bf16_teraflops"],
        fp8_tflops=row["fp8_teraflops"],
        fp4_tflops=row["fp4_teraflops"],
        int8_tops=row["int8_teraops"],
        measured_max_bf16_tflops=row["measured_max_bf16_teraflops"],
        scaleup_link=row["scaleup_link"],
        scaleup_bytes_per_second=_scaled(row["scaleup_gigabytes_per_second_per_direction"], GIGA),
        pcie_generation=row["pcie_generation"],
        pcie_bytes_per_second=_scaled(row["pcie_gigabytes_per_second_per_direction"], GIGA),
        power_watts=row["power_watts"],
        supports_bf16=row["supports_bf16"],
        supports_fp8=row["supports_fp8"],
        compute_capability=row["compute_capability"] or None,
        default_node=row["default_node_id"] if row["default_node_id"] in nodes else None,
        confidence=row["confidence"],
        source=row["source"],
        note=row["note"],
        unknown_reasons=row["unknown"],
    )


def _node_type(row: Row) -> catalog.NodeType:
    return catalog.NodeType(
        slug=row["slug"],
        provider=row["provider"],
        instance=row["instance_name"],
        accelerator=row["accelerator_id"],
        accelerator_count=row["accelerator_count"],
        vcpus=row["vcpus"],
        host_memory_bytes=row["host_memory_bytes"],
        local_nvme_bytes=row["local_nvme_bytes"],
        intra_link=row["intra_link"],
        intra_interconnect=row["intra_interconnect_id"],
        intra_bytes_per_second=_scaled(row["intra_gigabytes_per_second_per_direction"], GIGA),
        topology=row["topology"],
        scaleup_domain_size=row["scaleup_domain_size"],
        inter_link=row["inter_link"],
        inter_interconnect=row["inter_interconnect_id"],
        inter_bytes_per_second_total=_scaled(row["inter_gigabits_per_second_total"], GIGA / BITS_PER_BYTE),
        inter_bytes_per_second_per_accelerator=_scaled(
            row["inter_gigabits_per_second_per_accelerator"], GIGA / BITS_PER_BYTE
        ),
        assumed=row["assumed"],
        confidence=row["confidence"],
        source=row["source"],
        note=row["note"],
        unknown_reasons=row["unknown"],
    )


def _interconnect(row: Row) -> catalog.Interconnect:
    return catalog.Interconnect(
        slug=row["slug"],
        name=row["name"],
        scope=row["scope"],
        bytes_per_second=_scaled(row["gigabytes_per_second_per_direction"], GIGA),
        p2p_bytes_per_second=_scaled(row["p2p_gigabytes_per_second_per_direction"], GIGA),
        latency_seconds_low=_scaled(row["latency_microseconds_low"], MICRO),
        latency_seconds_high=_scaled(row["latency_microseconds_high"], MICRO),
        achievable_fraction=row["achievable_fraction"],
        fraction_basis=row["fraction_basis"],
        switched=row["topology"] == "switched",
        source=row["source"],
        note=row["note"],
    )


def _offer(row: Row, nodes: set[str]) -> catalog.Offer:
    return catalog.Offer(
        provider=row["provider"],
        region=row["region"],
        instance=row["instance_name"],
        node_type=row["node_type_id"] if row["node_type_id"] in nodes else None,
        accelerator=row["accelerator_id"],
        accelerator_count=row["accelerator_count"],
        pricing_kind=row["pricing_kind"],
        commitment=row["commitment"],
        usd_per_hour=float(row["usd_per_hour"]),
        price_date=row["price_date"],
        date_precision=row["date_precision"],
        price_not_before=row["price_not_before"],
        price_not_after=row["price_not_after"],
        billing_period_seconds=row["billing_period_seconds"],
        billing_minimum_seconds=row["billing_minimum_seconds"],
        billing_source=row["billing_source"],
        source=row["source"],
        note=row["note"],
    )
