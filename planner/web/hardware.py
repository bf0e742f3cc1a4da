"""The hardware pages as plain data: list, one device, nodes and offers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.http import QueryDict
from django.urls import reverse

from accounting.units import GB, GIB
from hardware.models import Accelerator, Interconnect, NodeType, Offer
from planner.web import format as text
from planner.web import prices
from planner.web.charts.price_history import PriceHistory, PricePoint, price_history, spark
from planner.web.choices import display_name
from planner.web.facts import ACCELERATOR, LINK, NODE, Origins, facts_of, origins_of
from planner.web.ledger import Fact
from planner.web.tables import Cell, Column, Row, Table, number, table

MEMORY_STEPS = (24, 40, 80, 141, 180)
SPARK_DAYS = 90

COLUMNS = (
    Column("name", "GPU"),
    Column("memory", "Memory", right=True),
    Column("bf16", "bf16", "TFLOP/s", right=True),
    Column("bandwidth", "Bandwidth", "GB/s", right=True),
    Column("on_demand", "On-demand", "$/GPU-h", right=True),
    Column("spot", "Spot", "$/GPU-h", right=True),
    Column("spark", "90 days"),
    Column("change", "Change", right=True),
    Column("age", "Price age", tight=True),
    Column("fp8", "fp8", "TFLOP/s", right=True, optional=True),
    Column("link", "Link", "GB/s each way", right=True, optional=True),
    Column("power", "Power", "W", right=True, optional=True),
    Column("year", "Year", right=True, optional=True),
    Column("offers", "Offers", right=True, optional=True),
    Column("confidence", "Confidence", optional=True),
)
OFFER_COLUMNS = (
    Column("provider", "Provider"),
    Column("region", "Region"),
    Column("instance", "Instance"),
    Column("gpus", "GPUs", right=True),
    Column("kind", "Pricing", tight=True),
    Column("rate", "$/GPU-h", right=True),
    Column("node_rate", "$/h", "whole instance", right=True),
    Column("day", "Price of", tight=True),
    Column("age", "Age"),
    Column("source", "Source", optional=True),
)
NODE_COLUMNS = (
    Column("name", "Node type"),
    Column("gpu", "GPU"),
    Column("gpus", "GPUs", right=True),
    Column("host", "Host memory", "GiB per node", right=True),
    Column("inside", "Inside", "GB/s each way, per GPU", right=True),
    Column("between", "Between", "Gb/s per GPU", right=True),
    Column("nvme", "NVMe", "GB per node", right=True, optional=True),
    Column("topology", "Topology", optional=True),
)
LINK_COLUMNS = (
    Column("name", "Link"),
    Column("scope", "Joins"),
    Column("rate", "Each way", "GB/s per GPU", right=True),
    Column("both", "As printed", "GB/s both ways", right=True, optional=True),
    Column("pair", "One pair", "GB/s each way", right=True, optional=True),
    Column("latency", "Latency", "\u00b5s", right=True),
    Column("share", "Measured", "of the rate", right=True),
    Column("basis", "How it was measured"),
    Column("used", "Used by", optional=True),
    Column("source", "Source", optional=True),
)


@dataclass(frozen=True)
class Filters:
    """What the reader asked for, as the form shows it again."""

    find: str
    least: str
    provider: str
    vendor: str
    providers: tuple[str, ...]


@dataclass(frozen=True)
class HardwarePage:
    """The list with its filters; `nothing` says why an empty list is empty."""

    table: Table
    filters: Filters
    nothing: str


def hardware_page(asked: QueryDict, today: date) -> HardwarePage:
    """Every device in use, by the filters of the address."""
    devices = list(Accelerator.objects.filter(retired=False).order_by("-year", "name"))
    offers = list(Offer.objects.filter(retired=False))
    by_device: dict[str, list[Offer]] = defaultdict(list)
    for offer in offers:
        by_device[offer.accelerator_id].append(offer)
    filters = Filters(
        asked.get("find", "").strip(),
        asked.get("least", ""),
        asked.get("provider", ""),
        asked.get("vendor", ""),
        tuple(sorted({offer.provider for offer in offers})),
    )
    kept = [row for row in devices if _wanted(row, filters, by_device[row.slug])]
    kept.sort(key=lambda row: not by_device[row.slug])  # what somebody sells comes before what nobody does
    edits = _edits(row.slug for row in kept)
    rows = [_device_row(row, by_device[row.slug], edits.get(row.slug, []), today) for row in kept]
    caption = (
        f"{len(kept)} of {len(devices)} devices, those with a price first. Memory is what the driver reports. "
        "TFLOP/s are dense. Prices are US dollars per GPU-hour, lowest offer."
    )
    return HardwarePage(table("hardware", COLUMNS, rows, asked, caption), filters, "" if kept else _nothing(filters))


def _wanted(row: Accelerator, filters: Filters, offers: Sequence[Offer]) -> bool:
    needle = filters.find.lower()
    if needle and needle not in row.slug and needle not in display_name(row.name).lower().replace("\u00a0", " "):
        return False
    if filters.least.isdecimal() and (row.memory_bytes or 0) < int(filters.least) * GIB * MARKETING:
        return False
    if filters.vendor and row.vendor != filters.vendor:
        return False
    return not filters.provider or any(offer.provider == filters.provider for offer in offers)


MARKETING = 0.93
"""A card sold as 80 GB may hold 79.1 GiB or only 74.5 GiB (80 × 10^9): all of them are "80"."""


def _nothing(filters: Filters) -> str:
    largest = Accelerator.objects.filter(retired=False, memory_bytes__isnull=False).order_by("-memory_bytes").first()
    if filters.least.isdecimal() and largest is not None:
        size = f"{display_name(largest.name)}, {text.capacity(largest.memory_bytes)}"
        return f"No device like this has {int(filters.least):,} GiB or more. The largest of all is {size}."
    return "No device like this. Take a filter away to see more."


def _edits(slugs: Iterable[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for record in Offer.history.filter(accelerator_id__in=list(slugs)):
        found[record.accelerator_id].append(record)
    return found


def _device_row(row: Accelerator, offers: list[Offer], edits: list[Any], today: date) -> Row:
    current = prices.newest(offers)
    on_demand, spot = (prices.best_of(current, kind) for kind in ("on-demand", "spot"))
    events = prices.events_of([offer for offer in offers if offer.pricing_kind == "on-demand"], edits)
    line = prices.lowest(event for event in events if event.item[4] == "on-demand")
    newest = max(filter(None, map(prices.day_of, current)), default=None)
    tone, words = prices.age_tag(newest, today)
    return {
        "name": Cell(display_name(row.name), row.slug, small=row.slug, href=reverse("web:device", args=[row.slug])),
        "memory": number(
            row.memory_bytes,
            text.capacity(row.memory_bytes),
            small="" if row.memory_bytes is None else f"{text.fixed(row.memory_bytes / GB, 0)}{text.NBSP}GB",
        ),
        "bf16": _rate(row.bf16_teraflops),
        "bandwidth": _rate(row.memory_bandwidth_gigabytes_per_second),
        "on_demand": _price(on_demand),
        "spot": _price(spot),
        "spark": Cell("" if line else text.DASH, 0, spark=spark(line, today, SPARK_DAYS)),
        "change": _change(line, today),
        "age": Cell(words, (today - newest).days if newest else 10**6, tone=tone),
        "fp8": _rate(row.fp8_teraflops),
        "link": _rate(row.scaleup_gigabytes_per_second_per_direction),
        "power": _rate(row.power_watts),
        "year": number(row.year, text.DASH if row.year is None else str(row.year)),
        "offers": Cell(text.count(len(current)), len(current)),
        "confidence": Cell(row.confidence),
    }


def _rate(value: float | None) -> Cell:
    return number(value, text.NOT_KNOWN if value is None else text.fixed(value, 0))


def _price(best: prices.Best | None) -> Cell:
    if best is None:
        return number(None, text.NO_PRICE)
    return number(best.usd, text.money_fine(best.usd), small=best.provider)


def _change(line: Sequence[PricePoint], today: date) -> Cell:
    """The lowest price now against the lowest 90 days ago."""
    if not line:
        return number(None, text.DASH)
    before = [point for point in line if (today - point.day).days >= SPARK_DAYS]
    if not before:
        return number(None, "new")
    share = 100 * (line[-1].usd / before[-1].usd - 1)
    return number(share, text.signed(f"{text.fixed(abs(share), 1)}{text.NBSP}%", round(share, 1)))


@dataclass(frozen=True)
class DevicePage:
    """One device: its facts with source, its prices over time, its nodes and offers."""

    slug: str
    name: str
    facts: tuple[Fact, ...]
    origins: Origins
    history: PriceHistory | None
    nodes: Table
    offers: Table
    priced: bool
    changed: str


def device_page(row: Accelerator, asked: QueryDict, today: date, *, may_edit: bool = False) -> DevicePage:
    """Everything the catalog knows of one device."""
    offers = list(Offer.objects.filter(accelerator_id=row.slug, retired=False))
    current = prices.newest(offers)
    nodes = list(NodeType.objects.filter(accelerator_id=row.slug, retired=False).order_by("slug"))
    return DevicePage(
        slug=row.slug,
        name=display_name(row.name),
        facts=facts_of(row, ACCELERATOR),
        origins=origins_of(row),
        history=_history(row, offers, today),
        nodes=table("nodes", NODE_COLUMNS, [node_row(node) for node in nodes], asked, f"{len(nodes)} node types."),
        offers=offers_table(current, asked, today, may_edit=may_edit),
        priced=bool(current),
        changed=text.day(row.changed_at.date()),
    )


def history_of(row: Accelerator, today: date) -> PriceHistory | None:
    """What one GPU-hour on demand has cost, by provider; None without a price."""
    return _history(row, list(Offer.objects.filter(accelerator_id=row.slug, retired=False)), today)


def _history(row: Accelerator, offers: Sequence[Offer], today: date) -> PriceHistory | None:
    on_demand = [offer for offer in offers if offer.pricing_kind == "on-demand"]
    events = prices.events_of(on_demand, Offer.history.filter(accelerator_id=row.slug, pricing_kind="on-demand"))
    return price_history(prices.by_provider(events), prices.last_seen(on_demand), today)


def offers_table(offers: Sequence[Offer], asked: QueryDict, today: date, *, may_edit: bool = False) -> Table:
    """Current offers, cheapest per GPU-hour first."""
    ordered = sorted(offers, key=lambda offer: offer.usd_per_accelerator_hour)
    caption = f"{len(offers)} offers, cheapest first. US dollars; the newest price of each."
    return table(
        "offers", OFFER_COLUMNS, [_offer_row(offer, today, may_edit=may_edit) for offer in ordered], asked, caption
    )


def _offer_row(offer: Offer, today: date, *, may_edit: bool) -> Row:
    day = prices.day_of(offer)
    tone, words = prices.age_tag(day, today)
    kind = " ".join(filter(None, (offer.pricing_kind, offer.commitment)))
    each = float(offer.usd_per_accelerator_hour)
    return {
        "provider": Cell(
            offer.provider, href=reverse("admin:hardware_offer_change", args=[offer.pk]) if may_edit else ""
        ),
        "region": Cell(offer.region),
        "instance": Cell(offer.instance_name),
        "gpus": Cell(text.count(offer.accelerator_count), offer.accelerator_count),
        "kind": Cell(kind),
        "rate": number(each, text.money_fine(each)),
        "node_rate": number(float(offer.usd_per_hour), text.money_rate(float(offer.usd_per_hour))),
        "day": Cell(text.day(day), day.isoformat() if day else ""),
        "age": Cell(words, (today - day).days if day else 10**6, tone=tone),
        "source": Cell(offer.source),
    }


def node_row(node: NodeType) -> Row:
    """One node type."""
    host, nvme = node.host_memory_bytes, node.local_nvme_bytes
    return {
        "name": Cell(node.slug, href=reverse("web:node", args=[node.slug])),
        "gpu": Cell(node.accelerator_id, href=reverse("web:device", args=[node.accelerator_id])),
        "gpus": Cell(text.count(node.accelerator_count), node.accelerator_count),
        "host": number(host, text.gib_number(host, 0)),
        "inside": _speed(node.intra_gigabytes_per_second_per_direction),
        "between": _speed(node.inter_gigabits_per_second_per_accelerator),
        "nvme": number(nvme, text.NOT_KNOWN if nvme is None else text.fixed(nvme / GB, 0)),
        "topology": Cell(node.topology),
    }


def nodes_page(asked: QueryDict) -> Table:
    """Every node type, by `?find=`."""
    nodes = NodeType.objects.filter(retired=False).order_by("slug")
    needle = asked.get("find", "").strip().lower()
    kept = [node for node in nodes if needle in node.slug or needle in node.accelerator_id]
    caption = f"{len(kept)} of {len(nodes)} node types. Links are per GPU and each way."
    return table("nodes", NODE_COLUMNS, [node_row(node) for node in kept], asked, caption)


def links_page(asked: QueryDict) -> Table:
    """Every kind of link with what was measured over it."""
    rows = list(Interconnect.objects.filter(retired=False).order_by("slug"))
    return table(
        "links",
        LINK_COLUMNS,
        [_link_row(row) for row in rows],
        asked,
        f"{len(rows)} kinds of link. GB/s are 10^9 bytes.",
    )


def _link_row(link: Interconnect) -> Row:
    low, high = link.latency_microseconds_low, link.latency_microseconds_high
    ends = " to ".join(dict.fromkeys(text.plain(end) for end in (low, high) if end is not None))
    return {
        "name": Cell(link.name),
        "scope": Cell(link.get_scope_display()),
        "rate": _speed(link.gigabytes_per_second_per_direction),
        "both": _speed(link.gigabytes_per_second_bidirectional),
        "pair": _speed(link.p2p_gigabytes_per_second_per_direction),
        "latency": number(low, ends or text.NOT_KNOWN),
        "share": number(link.achievable_fraction, text.fraction(link.achievable_fraction)),
        "basis": Cell(link.fraction_basis or text.DASH),
        "used": Cell(link.used_by or text.DASH),
        "source": Cell(link.source),
    }


def _speed(value: float | None) -> Cell:
    """A rate in three digits: a link of 0.16 GB/s is not one of 0."""
    return number(value, text.NOT_KNOWN if value is None else text.significant(value))


@dataclass(frozen=True)
class LinkFacts:
    """A link of a node, with what was measured over it."""

    name: str
    facts: tuple[Fact, ...]
    source: str


def node_facts(node: NodeType) -> tuple[Fact, ...]:
    """The facts of one node type."""
    return facts_of(node, NODE)


def links_of(node: NodeType) -> tuple[LinkFacts, ...]:
    """The links inside and between nodes."""
    rows = [link for link in (node.intra_interconnect, node.inter_interconnect) if link is not None]
    return tuple(LinkFacts(link.name, facts_of(link, LINK), link.source) for link in rows)
