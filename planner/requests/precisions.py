"""The `precision` member: a preset, or an object that names each stored dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accounting.facts.precisions import PRESETS, Precision
from planner.requests.notes import Notes
from planner.requests.tables import OWN_RULE

DEFAULT = "bf16-mixed"


def read_precision(given: str | Mapping[str, Any] | None, pointer: str, notes: Notes) -> Precision:
    """The recipe; the default stands in for faults. An object that equals a preset is the preset."""
    if isinstance(given, str):
        return PRESETS[given]
    if given is None or "compute" not in given or "parameters" not in given:
        return PRESETS[DEFAULT]
    parameters = given["parameters"]
    gradients = given.get("gradients", parameters)
    master = given.get("master_weights")
    states = None if given.get("optimizer_states") == OWN_RULE else given.get("optimizer_states")
    missing = [name for name in ("gradients", "master_weights", "optimizer_states", "reduce") if name not in given]
    if missing:
        notes.assume(
            f"precision: {', '.join(missing)} not stated: gradients and reduce follow the weights, no master copy is "
            "held, optimizer states follow the optimizer's own rule"
        )
    if given.get("optimizer_states", OWN_RULE) is None:
        notes.warn("precision.optimizer_states null is read as auto: a state that an optimizer needs is always held")
    _pitfalls(given, parameters, master, notes)
    return _preset_like(
        Precision(
            name="custom",
            compute=given["compute"],
            parameters=parameters,
            gradients=gradients,
            master_weights=master,
            optimizer_states=states,
            reduce=given.get("reduce", gradients) or gradients,
            source="the request",
        )
    )


def _preset_like(asked: Precision) -> Precision:
    parts = ("compute", "parameters", "gradients", "master_weights", "optimizer_states", "reduce")
    for preset in PRESETS.values():
        if all(getattr(preset, part) == getattr(asked, part) for part in parts):
            return preset
    return asked


def _pitfalls(given: Mapping[str, Any], parameters: str, master: str | None, notes: Notes) -> None:
    if "gradients" in given and given["gradients"] is None:
        notes.warn(
            "precision.gradients is null: gradients are a bucket of their own (2 or 4 bytes a parameter), not part of "
            "the optimizer state; without them only an optimizer that steps inside backward can run"
        )
    if master is not None and master == parameters:
        notes.warn(f"a {master} master copy of {parameters} weights holds every weight twice and gains no precision")


def precision_request(precision: Precision) -> str | dict[str, Any]:
    """The recipe as a request writes it."""
    if precision.name in PRESETS:
        return precision.name
    parts = ("compute", "parameters", "gradients", "master_weights", "optimizer_states", "reduce")
    written = {part: getattr(precision, part) for part in parts}
    return written | {"optimizer_states": precision.optimizer_states or OWN_RULE}
