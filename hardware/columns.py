"""The columns of each catalog file, listed by hand so that a new model field cannot change the published format.

A row travels as a plain dict (attribute → value) between CSV, database, validators and the core's records.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any

from accounting.naming import slug_of

Row = dict[str, Any]
MOST_USD = Decimal(1_000_000)


class CatalogFileError(ValueError):
    """A catalog file that cannot be read; `faults` lists every bad cell."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


@dataclass(frozen=True, slots=True)
class Column:
    """One CSV column. `attribute` is the model attribute where it differs: a reference stores the other row's slug, and
    django-simple-history keeps the names `instance` and `instance_type` for itself."""

    name: str
    kind: str = "text"
    attribute: str = ""

    @property
    def key(self) -> str:
        return self.attribute or self.name

    def parse(self, text: str) -> Any:
        """The value of a cell; an empty one is null (or empty text). Raises ValueError."""
        return PARSERS[self.kind](text.strip())

    def render(self, value: Any) -> str:
        """The cell for a value, the same text for equal values whichever database they come from."""
        return RENDERERS[type(value).__name__](value)


def _reasons(text: str) -> dict[str, str]:
    pairs = [part.split(": ", 1) for part in text.split("; ") if part]
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 - a column and its reason
        raise ValueError(f"{text!r} is not 'column: reason; column: reason'")
    return {pair[0]: pair[1] for pair in pairs}


def _flag(text: str) -> bool:
    if text not in {"yes", "no"}:
        raise ValueError(f"{text!r} is neither yes nor no")
    return text == "yes"


def _decimal(text: str) -> Decimal | None:
    if not text:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None
    if not value.is_finite() or abs(value) >= MOST_USD:
        raise ValueError(f"{text!r} is not a number below {MOST_USD}")
    return value


def _number(text: str) -> float | None:
    if not text:
        return None
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text!r} is not a number that can be counted with")
    return value


PARSERS: Mapping[str, Callable[[str], Any]] = {
    "text": str,
    "reference": lambda text: text or None,
    "integer": lambda text: int(text) if text else None,
    "number": _number,
    "decimal": _decimal,
    "flag": _flag,
    "date": lambda text: date.fromisoformat(text) if text else None,
    "reasons": _reasons,
}


def _render_decimal(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


RENDERERS: Mapping[str, Callable[[Any], str]] = {
    "str": str,
    "NoneType": lambda _: "",
    "int": str,
    "float": lambda value: repr(value).removesuffix(".0"),
    "Decimal": _render_decimal,
    "bool": lambda value: "yes" if value else "no",
    "date": date.isoformat,
    "dict": lambda value: "; ".join(f"{name}: {value[name]}" for name in sorted(value)),
}


def _columns(**kinds: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for kind, names in kinds.items() for name in names.split())


_PROVENANCE = (
    Column("source"),
    Column("source_date", "date"),
    Column("checked_date", "date"),
    Column("confidence"),
    Column("unknown", "reasons"),
    Column("note"),
)


@dataclass(frozen=True, slots=True)
class Table:
    """One kind of row: its file, its columns, the attributes that name a row, and how its slug is made."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    nullable: str
    """Attributes, one blank between, whose absence needs a reason in `unknown`."""
    slug: Callable[[Row], str] | None = None

    @property
    def file_name(self) -> str:
        return f"{self.name}.csv"

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(column.key for column in self.columns)

    def key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[attribute] for attribute in self.key)


def accelerator_slug(name: str) -> str:
    """An accelerator's slug is its catalog name in lower case."""
    return name.lower()


def node_slug(provider: str, instance: str) -> str:
    """A node type's slug is provider-instance, every other character a dash."""
    return slug_of(provider, instance)


def interconnect_slug(name: str) -> str:
    return slug_of(name).strip("-")


_RATES = (
    "fp32_teraflops tf32_teraflops fp16_teraflops bf16_teraflops fp8_teraflops fp4_teraflops int8_teraops "
    "measured_max_bf16_teraflops"
)
_LINKS = "scaleup_gigabytes_per_second_per_direction scaleup_gigabytes_per_second_bidirectional"

ACCELERATORS = Table(
    name="accelerators",
    columns=(
        *_columns(text="name vendor architecture kind"),
        Column("year", "integer"),
        Column("form_factor"),
        Column("parent", "reference", "parent_id"),
        Column("parent_fraction", "number"),
        Column("software_devices", "integer"),
        Column("memory_gb_marketing", "number"),
        Column("memory_bytes", "integer"),
        Column("memory_reported_by"),
        Column("torch_total_gib", "number"),
        Column("memory_type"),
        Column("memory_bandwidth_gigabytes_per_second", "number"),
        *_columns(number=_RATES),
        Column("scaleup_link"),
        *_columns(number=_LINKS),
        Column("pcie_generation", "integer"),
        Column("pcie_gigabytes_per_second_per_direction", "number"),
        Column("power_watts", "number"),
        *_columns(flag="supports_bf16 supports_fp8"),
        Column("compute_capability"),
        Column("default_node", "reference", "default_node_id"),
        *_PROVENANCE,
    ),
    key=("name",),
    nullable=(
        "year memory_bytes torch_total_gib memory_bandwidth_gigabytes_per_second "
        "scaleup_gigabytes_per_second_per_direction "
        f"pcie_generation pcie_gigabytes_per_second_per_direction power_watts {_RATES}"
    ),
    slug=lambda row: accelerator_slug(row["name"]),
)
NODES = Table(
    name="nodes",
    columns=(
        Column("provider"),
        Column("instance", attribute="instance_name"),
        Column("accelerator", "reference", "accelerator_id"),
        *_columns(integer="accelerator_count vcpus host_memory_bytes local_nvme_bytes"),
        Column("intra_link"),
        Column("intra_interconnect", "reference", "intra_interconnect_id"),
        Column("topology"),
        Column("intra_gigabytes_per_second_per_direction", "number"),
        Column("scaleup_domain_size", "integer"),
        Column("inter_link"),
        Column("inter_interconnect", "reference", "inter_interconnect_id"),
        *_columns(number="inter_gigabits_per_second_total inter_gigabits_per_second_per_accelerator"),
        Column("assumed", "flag"),
        *_PROVENANCE,
    ),
    key=("provider", "instance_name"),
    nullable=(
        "vcpus host_memory_bytes local_nvme_bytes intra_gigabytes_per_second_per_direction "
        "inter_gigabits_per_second_total inter_gigabits_per_second_per_accelerator"
    ),
    slug=lambda row: node_slug(row["provider"], row["instance_name"]),
)
INTERCONNECTS = Table(
    name="interconnects",
    columns=(
        *_columns(text="name scope"),
        *_columns(
            number="gigabytes_per_second_per_direction gigabytes_per_second_bidirectional "
            "p2p_gigabytes_per_second_per_direction latency_microseconds_low latency_microseconds_high"
        ),
        Column("latency_basis"),
        Column("achievable_fraction", "number"),
        *_columns(text="fraction_basis topology used_by"),
        *_PROVENANCE,
    ),
    key=("name",),
    nullable=(
        "gigabytes_per_second_per_direction p2p_gigabytes_per_second_per_direction latency_microseconds_low "
        "latency_microseconds_high achievable_fraction"
    ),
    slug=lambda row: interconnect_slug(row["name"]),
)
OFFERS = Table(
    name="offers",
    columns=(
        *_columns(text="provider region"),
        Column("instance", attribute="instance_name"),
        Column("node_type", "reference", "node_type_id"),
        Column("accelerator", "reference", "accelerator_id"),
        Column("accelerator_count", "integer"),
        *_columns(text="pricing_kind commitment"),
        Column("usd_per_hour", "decimal"),
        Column("price_date", "date"),
        Column("date_precision"),
        *_columns(date="price_not_before price_not_after"),
        Column("price_confirmed", "flag"),
        *_columns(integer="billing_period_seconds billing_minimum_seconds"),
        Column("billing_source"),
        *_PROVENANCE,
    ),
    key=(
        "provider",
        "region",
        "instance_name",
        "accelerator_id",
        "accelerator_count",
        "pricing_kind",
        "commitment",
        "price_date",
    ),
    nullable="node_type_id price_date",
)
TABLES = (INTERCONNECTS, ACCELERATORS, NODES, OFFERS)
"""In the order in which rows refer to one another (a default node is checked when all are in)."""


def read_table(folder: Path, table: Table) -> list[Row]:
    """The rows of one file. Raises CatalogFileError naming every bad cell by line and column."""
    with (folder / table.file_name).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        wanted = [column.name for column in table.columns]
        if reader.fieldnames != wanted:
            raise CatalogFileError([f"{table.file_name}: the columns must be {','.join(wanted)}"])
        faults: list[str] = []
        rows = [_parse(table, cells, reader.line_num, faults) for cells in reader]
    if faults:
        raise CatalogFileError(faults)
    return rows


def _parse(table: Table, cells: Mapping[str, str | None], line: int, faults: list[str]) -> Row:
    row: Row = {}
    for column in table.columns:
        cell = cells[column.name]
        try:
            row[column.key] = column.parse(cell) if cell is not None else None
        except ValueError as fault:
            faults.append(f"{table.file_name}:{line}: {column.name}: {fault}")
            row[column.key] = None
    if cells.get(column.name) is None or None in cells:
        faults.append(f"{table.file_name}:{line}: the number of cells differs from the number of columns")
    if table.slug and not faults:
        row["slug"] = table.slug(row)
    return row


def render_table(table: Table, rows: list[Row]) -> str:
    """The file for these rows, in the order of their keys: equal rows give equal bytes."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    lines: list[list[str]] = [[column.render(row[column.key]) for column in table.columns] for row in rows]
    names = [column.key for column in table.columns]
    key = [names.index(attribute) for attribute in table.key]
    lines.sort(key=lambda line: [line[index] for index in key])
    writer.writerows(lines)
    return out.getvalue()
