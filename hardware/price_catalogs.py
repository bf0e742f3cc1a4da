"""Price files of two public catalogs as rows of our offers: gpuhunt version 2 and SkyPilot version 8.

Both give the price of a whole instance an hour. Columns are read by name, for their order varies. What cannot be told
for sure (a GPU name that fits several of our devices) is refused with its line, never guessed.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from io import StringIO
from typing import Any

from hardware.columns import OFFERS, Row
from hardware.models import Accelerator, NodeType, Offer

MAX_LITERAL = 2_000
MEMORY_TOLERANCE = 0.1
GPUHUNT_COLUMNS = ("instance_name", "location", "price", "gpu_count", "gpu_name", "gpu_memory", "spot")
SKYPILOT_COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """One price of a file, before it is tied to our devices."""

    line: int
    instance: str
    region: str
    count: int
    gpu: str
    memory_gb: float | None
    kind: str
    usd_per_hour: str


@dataclass(slots=True)
class Converted:
    """Rows of our offers, and what was left out: (line, what, why)."""

    rows: list[Row] = field(default_factory=list)
    left_out: list[tuple[int, str, str]] = field(default_factory=list)


class PriceFileError(ValueError):
    """The file is not of the layout it was said to be."""


def read_gpuhunt(text: str) -> Iterator[Priced | tuple[int, str, str]]:
    """gpuhunt's catalog v2, one file per provider. Lines without a GPU are passed over."""
    for line, cells in _lines(text, GPUHUNT_COLUMNS):
        count = _whole(cells["gpu_count"])
        if not count or not cells["gpu_name"]:
            continue
        yield Priced(
            line=line,
            instance=cells["instance_name"],
            region=cells["location"],
            count=count,
            gpu=cells["gpu_name"],
            memory_gb=_number(cells["gpu_memory"]),
            kind="spot" if cells["spot"].strip().lower() == "true" else "on-demand",
            usd_per_hour=cells["price"],
        )


def read_skypilot(text: str) -> Iterator[Priced | tuple[int, str, str]]:
    """SkyPilot's catalog v8 (`vms.csv`): one line a place, with an on-demand and perhaps a spot price."""
    for line, cells in _lines(text, SKYPILOT_COLUMNS):
        count = _whole(cells["AcceleratorCount"])
        if not count or not cells["AcceleratorName"]:
            continue
        try:
            memory = _gpu_memory(cells.get("GpuInfo") or "")
        except ValueError as fault:
            yield line, cells["InstanceType"], str(fault)
            continue
        for kind, column in (("on-demand", "Price"), ("spot", "SpotPrice")):
            if (cells.get(column) or "").strip():
                yield Priced(
                    line=line,
                    instance=cells["InstanceType"],
                    region=cells["Region"],
                    count=count,
                    gpu=cells["AcceleratorName"],
                    memory_gb=memory,
                    kind=kind,
                    usd_per_hour=cells[column],
                )


def _gpu_memory(text: str) -> float | None:
    """Memory of one GPU, GB, out of SkyPilot's GpuInfo: a Python literal. Its total is wrong for several GPUs."""
    if not text:
        return None
    if len(text) > MAX_LITERAL:
        raise ValueError("GpuInfo is too long to be read")
    try:
        held = ast.literal_eval(text)
        size = held["Gpus"][0]["MemoryInfo"]["SizeInMiB"]
    except (ValueError, SyntaxError, KeyError, IndexError, TypeError, MemoryError, RecursionError):
        return None
    return size / 1024 if isinstance(size, (int, float)) else None


BILLING = ("billing_period_seconds", "billing_minimum_seconds", "billing_source")
"""No price file says them: a new price is billed as the provider's other ones."""
READERS: Mapping[str, Callable[[str], Iterator[Priced | tuple[int, str, str]]]] = {
    "gpuhunt": read_gpuhunt,
    "skypilot": read_skypilot,
}


def convert(layout: str, text: str, provider: str, day: date) -> Converted:
    """Every price of a file as a row of our offers, dated `day`. Raises PriceFileError for another layout."""
    found = Converted()
    known = _Known.read(provider)
    seen: set[tuple[Any, ...]] = set()
    for priced in READERS[layout](text):
        if isinstance(priced, tuple):
            found.left_out.append(priced)
            continue
        device, why = known.device_of(priced)
        if device is None:
            found.left_out.append((priced.line, f"{priced.instance} {priced.region}", why))
            continue
        row = _row(priced, device, known, provider, day, layout)
        key = tuple(row[name] for name in OFFERS.key)
        if key in seen:
            found.left_out.append((priced.line, f"{priced.instance} {priced.region}", "the same item stands above"))
            continue
        seen.add(key)
        found.rows.append(row)
    return found


@dataclass(slots=True)
class _Known:
    """Our devices, and which of them each instance of the provider holds."""

    devices: list[Accelerator]
    by_instance: dict[str, set[str]]
    nodes: dict[str, str]
    billing: dict[str, set[tuple[Any, ...]]]
    """Billing terms of the provider's offers by kind of price."""

    @classmethod
    def read(cls, provider: str) -> _Known:
        by_instance: dict[str, set[str]] = {}
        nodes: dict[str, str] = {}
        for node in NodeType.objects.filter(provider=provider):
            by_instance.setdefault(node.instance_name, set()).add(node.accelerator_id)
            nodes[node.instance_name] = node.slug
        for instance, device in Offer.objects.filter(provider=provider).values_list("instance_name", "accelerator_id"):
            by_instance.setdefault(instance, set()).add(str(device))
        billing: dict[str, set[tuple[Any, ...]]] = {}
        for kind, *terms in Offer.objects.filter(provider=provider).values_list("pricing_kind", *BILLING):
            billing.setdefault(kind, set()).add(tuple(terms))
        return cls(list(Accelerator.objects.filter(retired=False)), by_instance, nodes, billing)

    def billing_of(self, kind: str) -> Row:
        """The billing terms that all the provider's offers of a kind share; else unknown."""
        held = self.billing.get(kind, set())
        return dict(zip(BILLING, next(iter(held)) if len(held) == 1 else (None, None, ""), strict=True))

    def device_of(self, priced: Priced) -> tuple[str | None, str]:
        """(slug, '') where there is one answer, else (None, why)."""
        held = self.by_instance.get(priced.instance, set())
        if len(held) == 1:
            return next(iter(held)), ""
        chip = _chip(priced.gpu)
        whole = [row for row in self.devices if row.kind != "gpu-slice" and _chip(row.name) == chip]
        fits = [row.slug for row in whole if _near(row.memory_gb_marketing, priced.memory_gb)]
        fits = [slug for slug in fits if slug in held] or fits
        if len(fits) == 1:
            return fits[0], ""
        if not fits:
            return None, f"no device of the catalog is called {priced.gpu!r} with {priced.memory_gb or '?'} GB"
        return None, f"{priced.gpu!r} may be {' or '.join(sorted(fits))}: enter the instance as a node type first"


def _near(one: float, other: float | None) -> bool:
    return other is None or abs(one - other) <= MEMORY_TOLERANCE * one


def _chip(name: str) -> str:
    """'A100' of 'A100-SXM4-80GB' and of 'A100-80GB'."""
    return name.upper().replace(" ", "-").split("-")[0]


def _row(priced: Priced, device: str, known: _Known, provider: str, day: date, layout: str) -> Row:
    node = known.nodes.get(priced.instance)
    unknown = {} if node else {"node_type_id": "no node type of the catalog has this name"}
    return {
        "provider": provider,
        "region": priced.region,
        "instance_name": priced.instance,
        "node_type_id": node,
        "accelerator_id": device,
        "accelerator_count": priced.count,
        "pricing_kind": priced.kind,
        "commitment": "",
        "usd_per_hour": priced.usd_per_hour.strip(),
        "price_date": day,
        "date_precision": "exact",
        "price_not_before": None,
        "price_not_after": None,
        "price_confirmed": False,
        **known.billing_of(priced.kind),
        "source": f"{layout} price file of {provider}, {day.isoformat()}",
        "source_date": day,
        "checked_date": day,
        "confidence": "medium",
        "unknown": unknown,
        "note": "",
    }


def _lines(text: str, wanted: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(StringIO(text))
    missing = [name for name in wanted if name not in (reader.fieldnames or ())]
    if missing:
        raise PriceFileError(f"the columns {', '.join(missing)} are missing: this is another layout")
    for cells in reader:
        yield reader.line_num, {name: value or "" for name, value in cells.items() if isinstance(name, str)}


def _whole(text: str) -> int:
    number = _number(text)
    return int(number) if number is not None and number == int(number) else 0


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e9 else None  # noqa: PLR2004 - also turns NaN and infinity away
