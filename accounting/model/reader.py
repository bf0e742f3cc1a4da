"""Typed, bounded reading of JSON members that collects every fault instead of stopping at the first.

A member absent where the reader has no default is a fault; a default that is used is a warning, so nothing is
filled in silently.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from accounting.model.errors import Fault, pointer_token


class _Missing:
    """The absence of a value, distinct from JSON's null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

# Generous against every published model, small enough that no product of a few of them leaves int64 unnoticed;
# the total is checked once more when the tensors are counted.
LIMITS: Final[Mapping[str, int]] = {
    "layers": 10_000,
    "hidden_size": 2**20,
    "heads": 2**16,
    "kv_heads": 2**16,
    "head_dim": 2**16,
    "ffn_size": 2**24,
    "vocab_size": 2**27,
    "max_positions": 2**31,
    "experts": 2**16,
    "other": 2**24,
}

MAX_PARAMETERS: Final = 2**56
"""A model larger than this is refused: at 100 bytes a parameter its bytes still fit an int64."""


SHOWN: Final = 60
"""Characters of a client's value that a message quotes."""


def shown(value: object) -> str:
    """A value as an error message quotes it, cut where a client sent a novel."""
    try:
        text = repr(value)
    except ValueError:  # an integer beyond Python's limit of printed digits
        text = "a number of thousands of digits"
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def nearest(word: str, known: Collection[str]) -> str:
    """A hint naming the nearest known word, or the empty string."""
    found = difflib.get_close_matches(word.lower()[:100], list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


class Reader:
    """Reads members of one JSON object; `faults` and `warnings` are shared with the readers of nested objects."""

    def __init__(self, source: Mapping[str, Any], pointer: str = "") -> None:
        self.source = source
        self.pointer = pointer
        self.faults: list[Fault] = []
        self.warnings: list[str] = []
        self.defaulted: list[str] = []
        self.root: Mapping[str, Any] = source

    def nested(self, source: Mapping[str, Any], key: str) -> Reader:
        """A reader of the object at `key` that reports into this one."""
        child = Reader(source, f"{self.pointer}/{pointer_token(key)}")
        child.faults, child.warnings, child.defaulted = self.faults, self.warnings, self.defaulted
        child.root = self.root
        return child

    def fault(self, key: str, code: str, detail: str) -> None:
        """Record a fault at a member (or at the object itself where `key` is empty)."""
        self.faults.append(Fault(f"{self.pointer}/{pointer_token(key)}" if key else self.pointer, code, detail))

    def warn(self, text: str) -> None:
        """Record a warning once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def default_used(self, key: str, default: object) -> None:
        """Note that a missing member took its class default; `all_warnings` names them in one sentence."""
        self.defaulted.append(f"{key}={default}")

    def all_warnings(self) -> tuple[str, ...]:
        """The warnings so far, the defaults taken first."""
        taken = ", ".join(dict.fromkeys(self.defaulted))
        return (*((f"not stated, read from the class default: {taken}",) if taken else ()), *self.warnings)

    def key_of(self, keys: tuple[str, ...]) -> str:
        """The alias a value stands under, the first one where it stands under none."""
        return next((key for key in keys if self.source.get(key) is not None), keys[0])

    def find(self, keys: tuple[str, ...]) -> tuple[str, Any]:
        """(the key it stands under, the value) of the first alias that is there; MISSING where none is.

        Two aliases that disagree are a fault: nobody could say which one the run would take.
        """
        present = [(key, self.source[key]) for key in keys if key in self.source]
        stated = [pair for pair in present if pair[1] is not None] or present
        if not stated:
            return keys[0], MISSING
        for key, value in stated[1:]:
            if value != stated[0][1]:
                detail = f"{key}={shown(value)} contradicts {stated[0][0]}={shown(stated[0][1])}; keep one of them"
                self.fault(key, "contradiction", detail)
        return stated[0]

    def value(
        self, keys: tuple[str, ...], check: Callable[[str, Any], Any], default: Any = MISSING, *, nullable: bool = False
    ) -> Any:
        """The checked value under one of `keys`; MISSING (and a fault) where it cannot be had."""
        key, found = self.find(keys)
        if found is MISSING:
            if default is MISSING:
                others = f" (or {', '.join(keys[1:])})" if len(keys) > 1 else ""
                self.fault(key, "required", f"{key}{others} is missing and has no default; state it")
            elif default is not None and default != 0.0 or default is False:
                self.default_used(key, default)
            return default
        if found is None:
            if nullable or default is None:
                return None
            self.fault(key, "null", f"{key} is null; it needs a value")
            return MISSING
        return check(key, found)

    def integer(
        self, keys: tuple[str, ...], default: Any = MISSING, *, low: int = 1, high: int, nullable: bool = False
    ) -> Any:
        """A whole number in [low, high]; true and false are not numbers."""

        def check(key: str, found: Any) -> Any:
            if isinstance(found, bool) or not isinstance(found, int):
                self.fault(key, "not_an_integer", f"{key} must be a whole number, not {shown(found)}")
                return MISSING
            if not low <= found <= high:
                self.fault(key, "out_of_range", f"{key}={shown(found)} is outside {low} to {high}")
                return MISSING
            return found

        return self.value(keys, check, default, nullable=nullable)

    def number(self, keys: tuple[str, ...], default: Any = MISSING, *, low: float = 0.0, high: float = 1.0) -> Any:
        """A finite number in [low, high]."""

        def check(key: str, found: Any) -> Any:
            if isinstance(found, bool) or not isinstance(found, int | float):
                self.fault(key, "not_a_number", f"{key} must be a number, not {shown(found)}")
                return MISSING
            if not low <= found <= high or not math.isfinite(found):
                self.fault(key, "out_of_range", f"{key}={shown(found)} is outside {low} to {high}")
                return MISSING
            return float(found)

        return self.value(keys, check, default)

    def flag(self, keys: tuple[str, ...], default: Any = MISSING) -> Any:
        """True or false."""

        def check(key: str, found: Any) -> Any:
            if not isinstance(found, bool):
                self.fault(key, "not_a_boolean", f"{key} must be true or false, not {shown(found)}")
                return MISSING
            return found

        return self.value(keys, check, default)

    def choice(self, keys: tuple[str, ...], known: Mapping[str, str], default: Any = MISSING) -> Any:
        """One of the known words, translated by `known`."""

        def check(key: str, found: Any) -> Any:
            if not isinstance(found, str):
                self.fault(key, "not_a_string", f"{key} must be a string, not {shown(found)}")
                return MISSING
            if found.lower() not in known:
                detail = f"{key}={shown(found)} is unknown{nearest(found, known)}; known: {', '.join(sorted(known))}"
                self.fault(key, "unknown_value", detail)
                return MISSING
            return known[found.lower()]

        found = self.value(keys, check, default)
        return known.get(found, found) if isinstance(found, str) else found

    def items(self, key: str, check: Callable[[Any], bool], what: str) -> list[Any] | None:
        """A list whose every member passes `check`; None where it is absent, null or wrong (a fault)."""
        found = self.source.get(key)
        if found is None:
            return None
        if not isinstance(found, list) or not all(check(item) for item in found):
            self.fault(key, "wrong_list", f"{key} must be a list of {what}, not {shown(found)}")
            return None
        return found

    def unknown_members(self, known: Collection[str]) -> None:
        """A fault for every member that nobody reads."""
        for key in self.source:
            if key not in known:
                self.fault(key, "unknown_member", f"{shown(key)} is not a field here{nearest(key, known)}")
