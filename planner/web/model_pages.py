"""The models a team may name, as a list and one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.urls import reverse

from accounting.model import ConfigError
from planner.specs.models import ModelSpec, Origin
from planner.web import format as text
from planner.web.ledger import Fact
from planner.web.model_reading import Reading, reading_of
from planner.web.tables import Cell, Column, Row, Table, number, table

COLUMNS = (
    Column("name", "Model"),
    Column("parameters", "Parameters", right=True),
    Column("active", "Active", "per token", right=True),
    Column("family", "Family"),
    Column("layers", "Layers", right=True),
    Column("hidden", "Hidden size", right=True),
    Column("origin", "From"),
    Column("published", "Published", "parameters", right=True, optional=True),
    Column("vocabulary", "Vocabulary", right=True, optional=True),
    Column("confidence", "Confidence", optional=True),
    Column("checked", "Checked", optional=True),
)


@dataclass(frozen=True)
class ModelsPage:
    """The list and its filters."""

    table: Table
    find: str
    family: str
    families: tuple[str, ...]


def models_page(asked: QueryDict, specs: Mapping[str, ModelSpec]) -> ModelsPage:
    """Every visible model, by `?find=` and `?family=`."""
    find, family = asked.get("find", "").strip().lower(), asked.get("family", "")
    kept = [
        spec
        for spec in specs.values()
        if (not find or find in spec.slug or find in spec.name.lower() or any(find in name for name in spec.aliases))
        and (not family or spec.family == family)
    ]
    caption = f"{len(kept)} of {len(specs)} models. Parameters are counted on the model's own tensors, tied ones once."
    families = tuple(sorted({spec.family for spec in specs.values() if spec.family}))
    return ModelsPage(table("models", COLUMNS, [_row(spec) for spec in kept], asked, caption), find, family, families)


def _row(spec: ModelSpec) -> Row:
    shape: Mapping[str, Any] = spec.architecture or spec.config or {}
    layers = shape.get("layers") or shape.get("num_hidden_layers")
    hidden = shape.get("hidden_size")
    return {
        "name": Cell(spec.name, spec.slug, small=spec.slug, href=reverse("web:model", args=[spec.slug])),
        "parameters": number(
            spec.exact_parameters, text.count(spec.exact_parameters), small=text.short_count(spec.exact_parameters)
        ),
        "active": number(
            spec.active_parameters_per_token,
            _or_dash(spec.active_parameters_per_token, text.short_count),
        ),
        "family": Cell(spec.family),
        "layers": _whole(layers),
        "hidden": _whole(hidden),
        "origin": Cell(
            "your team" if spec.team_id else "catalog", small="" if spec.origin == Origin.SHIPPED else spec.origin
        ),
        "published": number(spec.published_parameters, _or_dash(spec.published_parameters, text.count)),
        "vocabulary": _whole(shape.get("vocab_size")),
        "confidence": Cell(spec.confidence),
        "checked": Cell(text.day(spec.checked_date), str(spec.checked_date or "")),
    }


def _or_dash(value: int | None, say: Callable[[int], str]) -> str:
    return text.DASH if value is None else say(value)


def _whole(value: Any) -> Cell:
    return number(value, f"{value:,}") if isinstance(value, int) else number(None, text.DASH)


@dataclass(frozen=True)
class ModelPage:
    """One model: its parts, its facts, how it was counted."""

    reading: Reading
    facts: tuple[Fact, ...]
    fault: str


def model_page(spec: ModelSpec) -> ModelPage:
    """Count the stored description again and show it part by part."""
    facts = [Fact(name.replace("_", " ").capitalize(), str(value)) for name, value in spec.facts.items() if value]
    if spec.published_parameters:
        facts.insert(0, Fact("Published parameters", text.count(spec.published_parameters)))
    facts = [fact for fact in facts if fact.name != "Warnings"]
    try:
        return ModelPage(reading_of(spec.model(), spec.config or {}, {}), tuple(facts), "")
    except ConfigError as error:
        return ModelPage(Reading(), tuple(facts), "; ".join(fault.detail for fault in error.faults))
