"""The formats, found by walking the folder, and the one door to them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from planner.errors import NotFound
from planner.export import formats
from planner.export.base import File, Format, Launch, NotExportable, Stamp
from planner.requests import RequestContext, read_estimate

__all__ = ["FORMATS", "possible", "render"]


def _found() -> dict[str, Format]:
    modules = (
        importlib.import_module(f"{formats.__name__}.{row.name}") for row in pkgutil.iter_modules(formats.__path__)
    )
    known: dict[str, Format] = {}
    for module in modules:
        form: Format = module.FORMAT
        assert form.key not in known, f"two modules write {form.key}"
        known[form.key] = form
    return known


FORMATS: Mapping[str, Format] = MappingProxyType(dict(sorted(_found().items())))


def render(key: str, option: Mapping[str, Any], stamp: Stamp, context: RequestContext, tokens: int | None) -> File:
    """One option of a plan's answer as a launch file.

    Raises NotFound for a format nobody writes, NotExportable where the format cannot say what the option decided, and
    InvalidRequest where the catalog no longer has what the option names.
    """
    form = FORMATS.get(key)
    if form is None:
        raise NotFound(f"there is no export of that name; there are {', '.join(FORMATS)}")
    launch = launch_of(option, stamp, context, tokens)
    return File(name=f"{launch.name}-{key}{form.suffix}", media_type=form.media_type, text=form.write(launch))


def launch_of(option: Mapping[str, Any], stamp: Stamp, context: RequestContext, tokens: int | None) -> Launch:
    """The option, read back as the very scenario it was."""
    offer = option.get("offer") or {}
    band = option.get("hours_band") or (None, None)
    return Launch(
        scenario=read_estimate(option["estimate"], context),
        stamp=stamp,
        nodes=option["nodes"],
        tokens=tokens,
        hours_high=band[1],
        pricing=offer.get("pricing"),
        provider=offer.get("provider"),
        region=offer.get("region"),
    )


def possible(option: Mapping[str, Any], stamp: Stamp, context: RequestContext, tokens: int | None) -> tuple[str, ...]:
    """The formats that can say what this option decided, in order of name."""
    launch = launch_of(option, stamp, context, tokens)
    return tuple(key for key, form in FORMATS.items() if _can(form, replace(launch, notes=[])))


def _can(form: Format, launch: Launch) -> bool:
    try:
        form.write(launch)
    except NotExportable:
        return False
    return True
