"""An estimate request to a scenario: shape first, then names, then meaning; every fault at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accounting.constraints import RULES, facts
from accounting.machine import single_machine
from accounting.scenario import Layout, Recipe, Scenario
from accounting.vocabulary import Attention
from planner.errors import InvalidRequest
from planner.requests.context import RequestContext
from planner.requests.fields import INVALID, Faults, Member, Record, Word
from planner.requests.hardware import Hardware, read_hardware
from planner.requests.layout import read_degrees, read_layout, read_sharding
from planner.requests.models import read_model
from planner.requests.notes import Notes
from planner.requests.optimizers import read_optimizer
from planner.requests.pitfalls import note_pitfalls
from planner.requests.precisions import read_precision
from planner.requests.recipe import (
    Sharding,
    check_adapter,
    check_offload,
    read_adapter,
    read_extra_models,
    read_offload,
    read_options,
    read_recompute,
    read_schedule,
)
from planner.requests.tables import ESTIMATE

MAXIMISE = ("micro_batch_size", "sequence_length")
MAXIMUM = Record({**ESTIMATE.members, "maximise": Member(Word(MAXIMISE), required=True)})


@dataclass(slots=True)
class Read:
    """What a request came to, before anybody asked whether it had faults."""

    recipe: Recipe
    layout: Layout
    hardware: Hardware | None
    options: Mapping[str, Any]


def read_estimate(payload: object, context: RequestContext) -> Scenario:
    """The scenario of an estimate request, N = 1. Raises InvalidRequest with every fault."""
    return _scenario(ESTIMATE, payload, context)[0]


def read_maximum(payload: object, context: RequestContext) -> tuple[Scenario, str]:
    """(the scenario, what to maximise) of a request for the largest value that fits. Raises InvalidRequest."""
    scenario, given = _scenario(MAXIMUM, payload, context)
    return scenario, given["maximise"]


def _scenario(table: Record, payload: object, context: RequestContext) -> tuple[Scenario, Mapping[str, Any]]:
    notes = Notes()
    given = table.read(payload, "", notes.faults)
    if given is INVALID:
        raise InvalidRequest(notes.faults.found)
    read = _read(given, context, notes)
    _judge(read, notes)
    if notes.faults.found or read.hardware is None:
        raise InvalidRequest(notes.faults.found)
    note_pitfalls(read.recipe, read.layout, read.hardware, read.options, notes)
    hardware = read.hardware
    machine = single_machine(
        hardware.accelerator,
        hardware.node_type,
        hardware.offer,
        int(read.layout.count[0, 0]),
        read.recipe.precision.compute,
    )
    scenario = Scenario(
        recipe=read.recipe,
        layout=read.layout,
        machine=machine,
        assumptions=tuple(notes.assumptions),
        warnings=tuple(notes.warnings),
    )
    return scenario, given


def _read(given: Mapping[str, Any], context: RequestContext, notes: Notes) -> Read:
    """Every member on its own; stand-ins where one has faults."""
    _, model = read_model(given.get("model"), context, notes)
    options = given.get("options", {})
    engine, stage = read_sharding(given.get("sharding", {}), notes)
    sharding = Sharding(engine, stage)
    hardware = read_hardware(given.get("hardware", {}), options, engine, context, notes)
    count = int(given.get("hardware", {}).get("count", 1))
    degrees = read_degrees(given.get("parallelism", {}), count, stage, notes)
    batch, pipeline = given.get("batch", {}), given.get("pipeline", {})
    layout = read_layout(degrees, batch, notes)
    for name in ("precision", "optimizer", "recompute", "attention"):
        if name not in given:
            notes.assume(f"{name} {ESTIMATE.members[name].default}")
    optimizer, optimizer_options = read_optimizer(given.get("optimizer"), "/optimizer", notes)
    adapter = read_adapter(given.get("adapter"), options, model, notes)
    offload = read_offload(given.get("offload", {}))
    check_offload(offload, sharding, "/offload", notes)
    check_adapter(adapter, sharding, notes)
    recipe = Recipe(
        model=model,
        engine=engine,
        zero_stage=stage,
        precision=read_precision(given.get("precision"), "/precision", notes),
        optimizer=optimizer,
        optimizer_options=optimizer_options,
        recompute=read_recompute(given.get("recompute"), "/recompute", notes),
        attention=Attention(given.get("attention", Attention.FLASH)),
        offload=offload,
        adapter=adapter,
        extra_models=read_extra_models(given.get("extra_models", ())),
        schedule=read_schedule(pipeline, degrees.vpp if degrees.pp > 1 else 1, degrees.pp, notes),
        stage_layers=pipeline.get("layout"),
        packed=batch.get("packed", False),
        mean_sequence_length=batch.get("mean_sequence_length"),
        headroom=float(given.get("headroom", 0.0)),
        options=read_options(options),
        evidence=context.evidence,
    )
    return Read(recipe, layout, hardware, options)


def _judge(read: Read, notes: Notes) -> None:
    """The rules between members. A rule that reads a member with faults has nothing to say."""
    recipe, layout = read.recipe, read.layout
    before = Faults(notes.faults.found)
    for rule in RULES:
        if not any(before.touches(pointer) for pointer in rule.reads) and bool(rule.broken(recipe, layout)):
            notes.faults.add(rule.field, rule.key, rule.message.format(**facts(recipe, layout)))
    mean = recipe.mean_sequence_length
    longest = int(layout.sequence_length[0, 0])
    if mean is not None and mean > longest and not notes.faults.touches("/batch"):
        detail = f"the mean length {mean} is above sequence_length {longest}"
        notes.faults.add("/batch/mean_sequence_length", "out_of_range", detail)
    accepted, stepped = recipe.optimizer.parameter_dtypes, recipe.precision.stepped
    known = not (notes.faults.touches("/optimizer") or notes.faults.touches("/precision"))
    if known and accepted and stepped not in accepted:
        detail = (
            f"{recipe.optimizer.name} steps {', '.join(accepted)} weights only, and this precision gives it {stepped}"
        )
        notes.faults.add("/optimizer", "dtype_unsupported", detail)
