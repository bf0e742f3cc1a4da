"""The `model` member: a catalog slug, a config.json, our own fields, a list of tensors, or a bare count."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from accounting.model import (
    ConfigError,
    Model,
    model_from_architecture,
    model_from_config,
    model_from_count,
    model_from_tensors,
)
from accounting.naming import NameLookupError
from planner.requests.context import RequestContext
from planner.requests.notes import Notes

READERS: Mapping[str, Callable[[Any], Model]] = {
    "config": model_from_config,
    "architecture": model_from_architecture,
    "tensors": model_from_tensors,
    "parameters": model_from_count,
}

LONGEST_KEPT = 1 << 16
"""Characters of a description that is kept with its model: 256 of the longest that are read would fill a gigabyte."""


def stand_in() -> Model:
    """What the other members are judged with where the model is not known: no rule of shape has a say about it."""
    return model_from_count(1)


def read_model(given: str | Mapping[str, Any] | None, context: RequestContext, notes: Notes) -> tuple[Any, Model]:
    """(the model as a request writes it, the model); faults are noted, and then the model is the stand-in."""
    if given is None:
        return None, stand_in()
    if isinstance(given, str):
        return _by_slug(given, context, notes)
    if notes.faults.touches("/model"):
        return given, stand_in()
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        notes.faults.add("/model", "one_of", f"give one of {', '.join(READERS)}; the object has {found}")
        return given, stand_in()
    (name, content), *_ = given.items()
    model = _built(name, content, notes)
    return given, model


def model_of(name: str, content: Any) -> Model:
    """The model of a description (`config`, `architecture`, `tensors`, `parameters`). Raises ConfigError."""
    text = json.dumps(content, sort_keys=True)
    return _cached(name, text) if len(text) <= LONGEST_KEPT else _read(name, text)


@lru_cache(maxsize=256)
def _cached(name: str, text: str) -> Model:
    """The same description is read once: a file of requests repeats its few models thousands of times."""
    return _read(name, text)


def _read(name: str, text: str) -> Model:
    return READERS[name](json.loads(text))


def _by_slug(slug: str, context: RequestContext, notes: Notes) -> tuple[Any, Model]:
    try:
        model = context.find_model(slug)
    except NameLookupError as error:
        notes.faults.add("/model", f"{error.code}_name", error.detail)
        return slug, stand_in()
    return model.slug or slug, model


def _built(name: str, content: Any, notes: Notes) -> Model:
    try:
        return model_of(name, list(content) if isinstance(content, tuple) else content)
    except ConfigError as error:
        notes.add_faults(f"/model/{name}", ((fault.pointer, fault.code, fault.detail) for fault in error.faults))
        return stand_in()
