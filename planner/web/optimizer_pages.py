"""Optimizers: what each keeps per parameter on a stated model, its caveat, its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.urls import reverse

from accounting.facts.optimizers import OPTIMIZERS, Optimizer, describe
from accounting.model import Model
from accounting.optimizer_laws import (
    ModelFacts,
    TensorView,
    complete_options,
    constant_bytes,
    state_bytes,
    step_temporary_bytes,
)
from planner.specs.models import ModelSpec
from planner.web import format as text
from planner.web.ledger import Fact
from planner.web.tables import Cell, Column, Row, Table, number, table

STATED_MODEL = "llama-3-8b"
"""Bytes per parameter depend on the tensors' shapes, so the list says on which model they were counted."""
FP32_BYTES = 4

COLUMNS = (
    Column("name", "Optimizer"),
    Column("library", "Library"),
    Column("state", "State", "bytes per parameter", right=True),
    Column("temporary", "Step", "GiB for a moment", right=True),
    Column("paged", "Paged", optional=True),
    Column("matrices", "Whole matrices", optional=True),
    Column("measured", "Measured"),
    Column("caveat", "Caveat"),
)


_MEASURED = {True: Cell("\u2713 measured", tone="ok"), False: Cell("! read in source", tone="warn")}


@dataclass(frozen=True)
class States:
    """What one optimizer keeps on one model, in bytes."""

    device: int
    host: int
    temporary: int
    per_parameter: float


@dataclass(frozen=True)
class OptimizersPage:
    """The list, and the model it was counted on."""

    table: Table
    find: str
    library: str
    libraries: tuple[str, ...]
    model: str


@dataclass(frozen=True)
class OptimizerPage:
    """One optimizer: facts, slots, options and states on a model."""

    name: str
    title: str
    caveat: str
    facts: tuple[Fact, ...]
    slots: tuple[Mapping[str, Any], ...]
    options: tuple[Mapping[str, Any], ...]
    model: str
    models: tuple[str, ...]
    states: tuple[Fact, ...]


def optimizers_page(asked: QueryDict, specs: Mapping[str, ModelSpec]) -> OptimizersPage:
    """Every registry row, by `?find=` and `?library=`."""
    find, library = asked.get("find", "").strip().lower(), asked.get("library", "")
    slug, model = _model(specs, asked.get("model", ""))
    kept = [
        row
        for row in OPTIMIZERS.values()
        if (not library or row.library == library)
        and (not find or find in row.name or find in row.title.lower() or any(find in name for name in row.aliases))
    ]
    said = "" if model is None else f" Bytes are fp32 states of all weights of {slug} on one GPU."
    caption = f"{len(kept)} of {len(OPTIMIZERS)} optimizers.{said}"
    rows = [_row(row, model) for row in kept]
    return OptimizersPage(
        table=table("optimizers", COLUMNS, rows, asked, caption),
        find=find,
        library=library,
        libraries=tuple(sorted({row.library for row in OPTIMIZERS.values()})),
        model=slug,
    )


def _model(specs: Mapping[str, ModelSpec], wanted: str) -> tuple[str, Model | None]:
    slug = wanted if wanted in specs else STATED_MODEL
    return (slug, specs[slug].model()) if slug in specs else ("", None)


def _row(row: Optimizer, model: Model | None) -> Row:
    held = None if model is None else states_on(row, model)
    return {
        "name": Cell(row.name, href=reverse("web:optimizer", args=[row.name]), small=row.title),
        "library": Cell(row.library, small=row.library_version),
        "state": number(None, text.DASH) if held is None else number(
            held.per_parameter, text.plain(round(held.per_parameter, 3)), small=text.memory(held.device)
        ),
        "temporary": number(None, text.DASH) if held is None else number(
            held.temporary, text.gib_number(held.temporary, 2)
        ),
        "paged": Cell("yes" if row.paged else "no"),
        "matrices": Cell("needs them" if row.needs_matrices else "no"),
        "measured": _MEASURED[row.measured],
        "caveat": Cell(describe(row).get("caveat") or ""),
    }  # fmt: skip


def states_on(row: Optimizer, model: Model) -> States | None:
    """The optimizer's default states over every tensor of a model, fp32; None for a bare count."""
    inventory = model.inventory
    if inventory is None:
        return None
    options = complete_options(row, {})
    shape = model.architecture
    facts = ModelFacts(
        hidden_size=shape.hidden_size if shape else 0,
        heads=shape.heads if shape else 1,
        elements=inventory.parameters,
    )
    views = [(TensorView.of(tensor, model=facts), tensor.count * times) for tensor, times in inventory.all_tensors()]
    device, host = constant_bytes(row, options)
    for view, times in views:
        held = state_bytes(row, options, view, FP32_BYTES)
        device, host = device + int(held.device) * times, host + int(held.host) * times
    temporary = int(step_temporary_bytes(row, options, views, FP32_BYTES))
    return States(device, host, temporary, device / inventory.parameters)


def optimizer_page(row: Optimizer, specs: Mapping[str, ModelSpec], wanted: str) -> OptimizerPage:
    """One registry row with its states on a model of the reader's choice."""
    plain = describe(row)
    slug, model = _model(specs, wanted)
    held = None if model is None else states_on(row, model)
    facts = [
        Fact("Class", row.title),
        Fact("Library", f"{row.library} {row.library_version}"),
        Fact("Dtype of the moments", row.state_rule),
        Fact("States exist", "from the start" if row.allocated_at_init else "from the first step"),
        Fact("Needs whole matrices", "yes" if row.needs_matrices else "no"),
        Fact("Stops under", ", ".join(stop["engine"] for stop in plain["stops_under"]) or "no engine that was tried"),
        Fact("Source", row.source),
    ]
    if plain["aliases"]:
        facts.append(Fact("Also called", ", ".join(plain["aliases"])))
    return OptimizerPage(
        name=row.name,
        title=row.title,
        caveat=str(plain.get("caveat") or ""),
        facts=tuple(facts),
        slots=tuple(plain["slots"]),
        options=tuple(plain["options"]),
        model=slug,
        models=tuple(specs),
        states=() if held is None else _state_facts(held),
    )


def _state_facts(held: States) -> tuple[Fact, ...]:
    return (
        Fact("State on the GPU", f"{text.memory(held.device, 2)}", text.exact_bytes(held.device)),
        Fact("Per parameter", f"{text.plain(round(held.per_parameter, 4))}{text.NBSP}bytes"),
        Fact("In host memory", text.exact_bytes(held.host)),
        Fact("For a moment, in the step", text.memory(held.temporary, 2), text.exact_bytes(held.temporary)),
    )
