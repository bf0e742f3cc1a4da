"""The `optimizer` member: a registry name, or an object with its name and options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from accounting.facts.optimizers import Optimizer, UnknownOptimizerError, find_alias, find_optimizer
from accounting.optimizer_laws import check_options, complete_options
from planner.documents import pointer_to
from planner.requests.fields import INVALID, Faults, shown, unstorable
from planner.requests.notes import Notes

DEFAULT = "adamw"
MAX_LIST = 256
MAX_TEXT = 128
MAX_NUMBER = 1e15

Chosen = tuple[Optimizer, Mapping[str, Any]]


def read_optimizer(given: str | Mapping[str, Any] | None, pointer: str, notes: Notes) -> Chosen:
    """(the registry row, every option of it); AdamW stands in where the request's own has faults."""
    fallback = (find_optimizer(DEFAULT), complete_options(find_optimizer(DEFAULT), {}))
    if given is None:
        return fallback
    name, options = _parts(given, pointer, notes.faults)
    if name is INVALID:
        return fallback
    try:
        alias = find_alias(name)
    except UnknownOptimizerError as error:
        notes.faults.add(pointer, "unknown_name", str(error))
        return fallback
    optimizer = find_optimizer(name)
    options = dict(alias.options) | options
    for fault in check_options(optimizer, options):
        notes.faults.add(pointer_to(pointer, fault.option), fault.code, fault.detail)
    if notes.faults.touches(pointer):
        return fallback
    _idle_options(optimizer, options, notes)
    return optimizer, complete_options(optimizer, options)


def _parts(given: str | Mapping[str, Any], pointer: str, faults: Faults) -> tuple[Any, dict[str, Any]]:
    if isinstance(given, str):
        return given, {}
    name = given.get("name")
    if not isinstance(name, str) or len(name) > MAX_TEXT or unstorable(name):
        code = "wrong_type" if "name" in given else "required"
        faults.add(f"{pointer}/name", code, "name is missing: the optimizer's registry name")
        return INVALID, {}
    options = {}
    for option, value in given.items():
        if option == "name":
            continue
        if _plain(value):
            options[option] = tuple(value) if isinstance(value, list) else value
        else:
            faults.add(pointer_to(pointer, option), "wrong_type", f"{shown(value)} is not a value an optimizer takes")
    return name, options


def _plain(value: object) -> bool:
    """Null, a flag, a finite number of sane size, a short text, or a short list of these."""
    if isinstance(value, list):
        return len(value) <= MAX_LIST and all(not isinstance(item, list) and _plain(item) for item in value)
    if isinstance(value, str):
        return len(value) <= MAX_TEXT and not unstorable(value)
    if isinstance(value, float):
        return math.isfinite(value) and abs(value) <= MAX_NUMBER
    if isinstance(value, int):
        return abs(value) <= MAX_NUMBER
    return value is None


def _idle_options(optimizer: Optimizer, options: Mapping[str, Any], notes: Notes) -> None:
    for option in optimizer.options:
        if option.name in options and not option.changes_bytes:
            notes.warn(f"optimizer.{option.name} changes nothing in the estimate")
