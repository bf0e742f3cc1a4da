"""What a config.json says about a model: its parts counted exactly, what was assumed, and what it is equal to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accounting.model import ConfigError, Model
from planner.documents import read_document
from planner.errors import Fault, InvalidRequest, PlannerError
from planner.requests.models import model_of
from planner.specs.models import ModelSpec
from planner.web import format as text
from planner.web.ledger import Fact

ROLES: tuple[tuple[str, str], ...] = (
    ("embedding", "Token embedding"),
    ("position", "Position embedding"),
    ("attention", "Attention"),
    ("mlp", "MLP"),
    ("router", "Router"),
    ("expert", "Experts"),
    ("norm", "Norms"),
    ("bias", "Biases"),
    ("other", "Other"),
    ("head", "Output head"),
)
_MOST_SHAPES = 4


@dataclass(frozen=True)
class Part:
    """Tensors of one role: their shapes, how many there are, and their parameters."""

    name: str
    made_of: str
    parameters: str
    share: str


@dataclass(frozen=True)
class Reading:
    """A config as it was understood, or what is wrong with it."""

    config: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    parts: tuple[Part, ...] = ()
    total: str = ""
    facts: tuple[Fact, ...] = ()
    warnings: tuple[str, ...] = ()
    same_as: str = ""
    faults: tuple[Fault, ...] = ()


def read_pasted(typed: str, known: Mapping[str, ModelSpec]) -> Reading:
    """The reading of a pasted file; empty where nothing was typed yet."""
    if not typed.strip():
        return Reading()
    try:
        config = read_document(typed.encode())
    except PlannerError as error:
        return Reading(faults=error.faults or (Fault("", error.code, error.detail),))
    if not isinstance(config, Mapping):
        return Reading(faults=(Fault("", "not_an_object", "a config.json is a JSON object: braces included"),))
    try:
        return reading_of(model_of("config", config), config, known)
    except ConfigError as error:
        return Reading(config, faults=tuple(Fault(fault.pointer, fault.code, fault.detail) for fault in error.faults))
    except InvalidRequest as error:
        return Reading(config, faults=error.faults)


def reading_of(model: Model, config: Mapping[str, Any], known: Mapping[str, ModelSpec]) -> Reading:
    """A model part by part."""
    architecture = model.architecture
    family = "" if architecture is None else architecture.family
    return Reading(
        config=config,
        title=f"{family}, {text.short_count(model.parameters)} parameters",
        parts=parts_of(model),
        total=text.count(model.parameters),
        facts=facts_of_model(model),
        warnings=tuple(model.warnings),
        same_as=_same_as(model, known),
    )


def parts_of(model: Model) -> tuple[Part, ...]:
    """The tensors by role; they sum to the model."""
    if model.inventory is None:
        return ()
    held: dict[str, list[tuple[tuple[int, ...], int, int]]] = {}
    for tensor, times in model.inventory.all_tensors():
        held.setdefault(tensor.role, []).append((tensor.shape, tensor.count * times, tensor.parameters * times))
    found = []
    for role, name in ROLES:
        rows = held.pop(role, [])
        size = sum(parameters for _, _, parameters in rows)
        if size:
            found.append(Part(name, _shapes(rows), text.count(size), text.share(size, model.parameters)))
    return tuple(found)


def _shapes(rows: list[tuple[tuple[int, ...], int, int]]) -> str:
    """'32 × (4,096 × 4,096)' of each shape, largest first."""
    counted: dict[tuple[int, ...], tuple[int, int]] = {}
    for shape, times, parameters in rows:
        count, size = counted.get(shape, (0, 0))
        counted[shape] = (count + times, size + parameters)
    ordered = sorted(counted.items(), key=lambda row: -row[1][1])
    words = []
    for shape, (times, _) in ordered[:_MOST_SHAPES]:
        sides = " \u00d7 ".join(f"{side:,}" for side in shape)
        words.append(sides if times == 1 else f"{times:,} of {sides}")
    more = len(ordered) - _MOST_SHAPES
    return "; ".join(words) + (f"; {more} more shape{'' if more == 1 else 's'}" if more > 0 else "")


def facts_of_model(model: Model) -> tuple[Fact, ...]:
    """The shape of a model in words and numbers."""
    shape = model.architecture
    if shape is None:
        return ()
    heads = text.count(shape.heads)
    heads += f", {shape.kv_heads:,} for keys and values" if shape.kv_heads != shape.heads else ""
    rows = [
        ("Family", shape.family),
        ("Layers", text.count(shape.layers)),
        ("Hidden size", text.count(shape.hidden_size)),
        ("Heads", f"{heads}, width {shape.head_dim:,}"),
        ("MLP", f"{'gated, ' if shape.gated_mlp else ''}width {shape.ffn_size:,}, {shape.activation}"),
        ("Vocabulary", text.count(shape.vocab_size)),
        ("Longest sequence", "no limit stated" if shape.max_positions is None else text.count(shape.max_positions)),
        ("Norm", shape.norm),
        ("Embeddings", "tied to the head" if shape.tied_embeddings else "not tied"),
    ]
    if shape.moe is not None:
        rows.append(("Experts", f"{shape.moe.experts:,}, {shape.moe.top_k:,} for each token"))
        rows.append(("Active parameters", text.count(model.active_parameters)))
    if shape.sliding_window:
        rows.append(("Sliding window", text.count(shape.sliding_window)))
    return tuple(Fact(name, value) for name, value in rows)


def _same_as(model: Model, known: Mapping[str, ModelSpec]) -> str:
    """The catalog's model of the very same shape."""
    for slug, spec in known.items():
        if spec.exact_parameters != model.parameters:
            continue
        try:
            held = spec.model()
        except ConfigError:
            continue
        if held.architecture == model.architecture:
            return slug
    return ""
