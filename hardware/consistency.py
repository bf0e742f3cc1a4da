"""Pure checks of catalog rows against one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from hardware.columns import Row
from hardware.validators import TOLERANCE


def reference_faults(rows: Mapping[str, list[Row]]) -> list[str]:
    """What does not fit between rows: names that lead nowhere, machines faster than their devices, slices larger than
    their whole, offers whose machine has other devices, two rows of one name."""
    devices = {row["slug"]: row for row in rows["accelerators"]}
    machines = {row["slug"]: row for row in rows["nodes"]}
    links = {row["slug"]: row for row in rows["interconnects"]}
    return [
        *_duplicates(rows),
        *(fault for row in rows["accelerators"] for fault in _device_references(row, devices, machines)),
        *(fault for row in rows["nodes"] for fault in _machine_references(row, devices, links)),
        *(fault for row in rows["offers"] for fault in _offer_references(row, devices, machines)),
    ]


def _duplicates(rows: Mapping[str, list[Row]]) -> Iterator[str]:
    for name in ("accelerators", "nodes", "interconnects"):
        slugs = [row["slug"] for row in rows[name]]
        yield from (f"{name}: {slug} stands {slugs.count(slug)} times" for slug in set(slugs) if slugs.count(slug) > 1)


def _device_references(row: Row, devices: Mapping[str, Row], machines: Mapping[str, Row]) -> Iterator[str]:
    node = machines.get(row["default_node_id"])
    if node is None:
        yield f"{row['slug']}: default node {row['default_node_id']} is not in nodes"
    elif node["accelerator_id"] != row["slug"]:
        yield f"{row['slug']}: default node {node['slug']} holds {node['accelerator_id']}"
    if row["parent_id"] is not None:
        parent = devices.get(row["parent_id"])
        if parent is None:
            yield f"{row['slug']}: parent {row['parent_id']} is not in accelerators"
        elif row["memory_bytes"] > parent["memory_bytes"]:
            yield f"{row['slug']}: more memory than {parent['slug']}"


def _machine_references(row: Row, devices: Mapping[str, Row], links: Mapping[str, Row]) -> Iterator[str]:
    for attribute in ("intra_interconnect_id", "inter_interconnect_id"):
        if row[attribute] is not None and row[attribute] not in links:
            yield f"{row['slug']}: {attribute} {row[attribute]} is not in interconnects"
    device = devices.get(row["accelerator_id"])
    if device is None:
        yield f"{row['slug']}: accelerator {row['accelerator_id']} is not in accelerators"
        return
    rates = [device[f"{kind}_gigabytes_per_second_per_direction"] for kind in ("scaleup", "pcie")]
    fastest = max((rate for rate in rates if rate is not None), default=None)
    inside = row["intra_gigabytes_per_second_per_direction"]
    if inside is not None and fastest is not None and inside > fastest * (1 + TOLERANCE):
        yield f"{row['slug']}: {inside:g} GB/s inside is above the device's {fastest:g} each way"


def _offer_references(row: Row, devices: Mapping[str, Row], machines: Mapping[str, Row]) -> Iterator[str]:
    item = f"{row['provider']} {row['region']} {row['instance_name']}"
    if row["accelerator_id"] not in devices:
        yield f"{item}: accelerator {row['accelerator_id']} is not in accelerators"
    if row["node_type_id"] is None:
        return
    node = machines.get(row["node_type_id"])
    if node is None:
        yield f"{item}: node type {row['node_type_id']} is not in nodes"
    elif (node["accelerator_id"], node["accelerator_count"]) != (row["accelerator_id"], row["accelerator_count"]):
        yield (
            f"{item}: {row['accelerator_count']} × {row['accelerator_id']} priced, but {node['slug']} holds "
            f"{node['accelerator_count']} × {node['accelerator_id']}"
        )


def price_flags(offers: Iterable[Row]) -> list[str]:
    """Prices worth a second look, not refused: spot above on-demand, a larger instance cheaper than a smaller one."""
    prices: dict[tuple[Any, ...], Decimal] = {}
    for row in offers:
        prices[(row["provider"], row["region"], row["accelerator_id"], row["accelerator_count"], row["instance_name"],
                row["commitment"], row["pricing_kind"])] = row["usd_per_hour"]  # fmt: skip
    flags = []
    for (*place, device, count, instance, commitment, kind), price in sorted(prices.items(), key=str):
        where = " ".join([*place, instance])
        on_demand = prices.get((*place, device, count, instance, "", "on-demand"))
        if kind == "spot" and on_demand is not None and price > on_demand:
            flags.append(f"{where}: spot ${price} is above on-demand ${on_demand}")
        smaller = [
            other
            for (*spot, other_device, other_count, _, other_commitment, other_kind), other in prices.items()
            if spot == place and other_device == device and other_count < count
            and (other_commitment, other_kind) == (commitment, kind) and other > price
        ]  # fmt: skip
        if smaller:
            flags.append(f"{where}: {kind} ${price} for {count} devices is below ${min(smaller)} for fewer")
    return flags
