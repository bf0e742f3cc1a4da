"""What a form has no field for: kept as JSON in one field, so that no part of a request is lost on its way through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SILENT: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("dp_replicate", "tp", "cp", "pp", "vpp", "ep"), (1,)),
    "sequence_parallel": (True,),
    "schedule": ("1f1b",),
    "packed": (False,),
    "micro_batch_size": (1,),
    "commitment": ("",),
}
"""Values that say no more than leaving the member out."""
NOTHING: tuple[Any, ...] = (None, "none", "", {}, [])


def leftover(request: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a request that the form's own fields would not give again, defaults apart."""
    silent = {**SILENT, "etp": ((request.get("parallelism") or {}).get("tp") or 1,)}
    return _difference(request, shown, silent)


def _difference(
    request: Mapping[str, Any], shown: Mapping[str, Any], silent: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in request.items():
        there = shown.get(name)
        if value == there or (there is None and (value in NOTHING or value in silent.get(name, ()))):
            continue
        if isinstance(value, Mapping):
            inside = _difference(value, there if isinstance(there, Mapping) else {}, silent)
            if inside:
                found[name] = inside
        else:
            found[name] = value
    return found


def merged(payload: Mapping[str, Any], more: Any) -> Any:
    """The form's request with the typed JSON laid over it; what is no object stands for the whole, to be refused."""
    if not isinstance(more, Mapping):
        return more
    whole = dict(payload)
    for name, value in more.items():
        under = whole.get(name)
        whole[name] = merged(under, value) if isinstance(value, Mapping) and isinstance(under, Mapping) else value
    return whole
