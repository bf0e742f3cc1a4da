"""Checking the options a request gives an optimizer: all faults at once, each naming the value and the way out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accounting.facts.optimizers import Optimizer, Option
from accounting.naming import nearest_names


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionFault:
    option: str
    code: str
    """`unknown_member`, `required`, `invalid_type`, `out_of_range`, `invalid_choice`, `contradiction`."""
    detail: str


def check_options(optimizer: Optimizer, given: Mapping[str, Any]) -> tuple[OptionFault, ...]:
    """Every fault of `given` as options of this optimizer; empty where it can run."""
    known = {option.name: option for option in optimizer.options}
    faults = [_unknown(optimizer, name, known) for name in given if name not in known]
    for option in optimizer.options:
        if option.name in given:
            fault = _fault(option, given[option.name])
            if fault is not None:
                faults.append(fault)
        elif option.required:
            detail = f"{optimizer.library}'s {optimizer.title} refuses to start without {option.name}"
            faults.append(OptionFault(option=option.name, code="required", detail=detail))
    return tuple(faults) + (() if faults else _contradictions(given))


def _unknown(optimizer: Optimizer, name: str, known: Mapping[str, Option]) -> OptionFault:
    nearest = nearest_names(name, known)
    listed = f"nearest: {', '.join(nearest)}" if nearest else f"it takes {', '.join(known) or 'none'}"
    return OptionFault(option=name, code="unknown_member", detail=f"{optimizer.name} has no option {name!r}; {listed}")


_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "number": ((int, float), "a number"),
    "integer": ((int,), "a whole number"),
    "boolean": ((bool,), "true or false"),
    "choice": ((str,), "a string"),
    "names": ((list, tuple), "a list of strings"),
    "numbers": ((list, tuple), "a list of numbers"),
}


def _fault(option: Option, value: object) -> OptionFault | None:
    if value is None and option.nullable:
        return None
    types, words = _TYPES[option.kind]
    wrong = not isinstance(value, types) or (isinstance(value, bool) and option.kind != "boolean")
    if not wrong and option.kind == "names" and isinstance(value, list | tuple):
        wrong = not all(isinstance(item, str) for item in value)
    if wrong:
        detail = f"{option.name} is {value!r}; give {words}"
        return OptionFault(option=option.name, code="invalid_type", detail=detail)
    if option.kind == "choice" and value not in option.choices:
        detail = f"{option.name}={value!r} is not one of {', '.join(option.choices)}"
        return OptionFault(option=option.name, code="invalid_choice", detail=detail)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _range_fault(option, value)
    return None


def _range_fault(option: Option, value: float) -> OptionFault | None:
    low, high = option.minimum, option.maximum
    below = low is not None and (value <= low if option.exclusive_minimum else value < low)
    above = high is not None and (value >= high if option.exclusive_maximum else value > high)
    if math.isfinite(value) and not below and not above:
        return None
    bounds = []
    if low is not None:
        bounds.append(f"{'above' if option.exclusive_minimum else 'at least'} {low:g}")
    if high is not None:
        bounds.append(f"{'below' if option.exclusive_maximum else 'at most'} {high:g}")
    detail = f"{option.name}={value!r} must be {' and '.join(bounds) or 'finite'}"
    return OptionFault(option=option.name, code="out_of_range", detail=detail)


def _contradictions(given: Mapping[str, Any]) -> tuple[OptionFault, ...]:
    faults = []
    if given.get("nesterov") and not given.get("momentum"):
        detail = "nesterov=true needs a momentum above 0: set momentum, or drop nesterov"
        faults.append(OptionFault(option="nesterov", code="contradiction", detail=detail))
    if given.get("fused") and given.get("foreach"):
        detail = "fused=true and foreach=true exclude each other: keep one"
        faults.append(OptionFault(option="fused", code="contradiction", detail=detail))
    return tuple(faults)
