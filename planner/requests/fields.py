"""Typed readers of JSON members: each takes a value and gives it back, or notes what is wrong with it and goes on.

A kind says three things about a member: what it accepts, what it answers otherwise, and its OpenAPI schema. Nothing is
coerced: `true` is not 1 and `"8"` is not 8; only a whole number written as 8192.0 or 15e9 counts as a whole number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from accounting.naming import nearest_names
from planner.documents import SLUG, pointer_to
from planner.errors import Fault

MAX_FAULTS = 100
MAX_UNKNOWN = 20
MAX_SHOWN = 60

INVALID: Final = object()
"""What a kind gives where it has noted a fault."""


class Faults:
    """The faults of one request, in the order they were found."""

    def __init__(self, found: Iterable[Fault] = ()) -> None:
        self.found = list(found)

    def add(self, pointer: str, code: str, detail: str) -> None:
        fault = Fault(pointer, code, detail)
        if len(self.found) < MAX_FAULTS and fault not in self.found:
            self.found.append(fault)

    def touches(self, pointer: str) -> bool:
        """True where the member at `pointer`, something above or something below it is already known to be wrong."""
        return any(
            fault.pointer == pointer
            or fault.pointer.startswith(f"{pointer}/")
            or pointer.startswith(f"{fault.pointer}/")
            for fault in self.found
        )


class Kind(Protocol):
    def read(self, value: object, pointer: str, faults: Faults) -> Any: ...

    def schema(self) -> dict[str, Any]: ...


def shown(value: object) -> str:
    """A value as a fault's detail repeats it: short, and safe to print."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    text = json.dumps(value[:MAX_SHOWN] if isinstance(value, str) else value)
    return f"{text[:MAX_SHOWN]}…" if isinstance(value, str) and len(value) > MAX_SHOWN else text


def nearest(text: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    """`; nearest: …` or nothing."""
    found = nearest_names(text[:MAX_SHOWN], known, limit=3)
    return f"; nearest: {', '.join(found)}" if found else ""


def unstorable(text: str) -> bool:
    return "\0" in text or any("\ud800" <= character <= "\udfff" for character in text)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    low: int
    high: int

    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        number = value
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            number = int(value)
        if not isinstance(number, int) or isinstance(number, bool):
            faults.add(pointer, "wrong_type", f"{shown(value)} is not a whole number")
            return INVALID
        if not self.low <= number <= self.high:
            detail = f"{shown(value)} is out of range: {self.low:,} to {self.high:,}"
            faults.add(pointer, "out_of_range", detail)
            return INVALID
        return number

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number within bounds; `above` leaves the lower bound itself out."""

    low: float
    high: float
    above: bool = False

    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            faults.add(pointer, "wrong_type", f"{shown(value)} is not a number")
            return INVALID
        if isinstance(value, float) and not math.isfinite(value):
            faults.add(pointer, "not_finite", "the number is not finite")
            return INVALID
        # Compared before any conversion: float() of a huge int raises.
        if not (self.low < value or (value == self.low and not self.above)) or value > self.high:
            bound = "more than" if self.above else "at least"
            detail = f"{shown(value)} is out of range: {bound} {self.low:g}, at most {self.high:g}"
            faults.add(pointer, "out_of_range", detail)
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        bound = "exclusiveMinimum" if self.above else "minimum"
        return {"type": "number", bound: self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Flag:
    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        if not isinstance(value, bool):
            faults.add(pointer, "wrong_type", f"{shown(value)} is neither true nor false")
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Text:
    """A name of one line."""

    longest: int = 128

    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        if not isinstance(value, str):
            faults.add(pointer, "wrong_type", f"{shown(value)} is not a text")
            return INVALID
        if not value.strip():
            faults.add(pointer, "empty", "the text is empty")
            return INVALID
        if len(value) > self.longest:
            faults.add(pointer, "too_long", f"{len(value):,} characters; at most {self.longest} are read")
            return INVALID
        if unstorable(value):
            faults.add(pointer, "not_text", "the text has a NUL or half a surrogate pair in it")
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": self.longest}


@dataclass(frozen=True, slots=True)
class Slug:
    """A name that may reach a path, a launch file or a shell; lower case is made of it."""

    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        if not isinstance(value, str):
            faults.add(pointer, "wrong_type", f"{shown(value)} is not a text")
            return INVALID
        if not SLUG.match(value.lower()):
            form = "at most 128 of a-z, 0-9, dot, dash, underscore, a letter or digit first"
            detail = f"{shown(value)} is no slug: {form}"
            faults.add(pointer, "invalid_slug", detail)
            return INVALID
        return value.lower()

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"}


@dataclass(frozen=True, slots=True)
class Word:
    """One of a closed list, whatever its case."""

    words: tuple[str, ...]

    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        if not isinstance(value, str):
            faults.add(pointer, "wrong_type", f"{shown(value)} is not a text: {', '.join(self.words)}")
            return INVALID
        found = next((word for word in self.words if word.lower() == value.lower()), None)
        if found is None:
            hint = nearest(value, self.words)
            listed = ", ".join(self.words)
            faults.add(pointer, "unknown_value", f"{shown(value)} is none of: {listed}{hint}")
            return INVALID
        return str(found)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of one kind, short enough to be meant; read as a tuple."""

    item: Kind
    longest: int = 64
    shortest: int = 0

    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        if not isinstance(value, list):
            faults.add(pointer, "wrong_type", f"{shown(value)} is not a list")
            return INVALID
        if not self.shortest <= len(value) <= self.longest:
            detail = f"{len(value):,} entries; the list takes {self.shortest} to {self.longest}"
            faults.add(pointer, "wrong_length", detail)
            return INVALID
        items = [self.item.read(entry, f"{pointer}/{index}", faults) for index, entry in enumerate(value)]
        return INVALID if any(entry is INVALID for entry in items) else tuple(items)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "array",
            "items": self.item.schema(),
            "minItems": self.shortest,
            "maxItems": self.longest,
        }


@dataclass(frozen=True, slots=True)
class Anything:
    """An object that a reader further on knows how to take apart (a config.json, an architecture)."""

    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        if not isinstance(value, dict):
            faults.add(pointer, "wrong_type", f"{shown(value)} is not an object")
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": True}


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a record: its kind, whether it must be there, whether null is a value, and its default in words."""

    kind: Kind
    required: bool = False
    nullable: bool = False
    default: object = None
    """What stands in the schema; a text may say how it is found ("what is left of count")."""
    help: str = ""

    def schema(self) -> dict[str, Any]:
        schema = self.kind.schema()
        if self.nullable:
            schema = {"oneOf": [schema, {"type": "null"}]}
        if self.help:
            schema["description"] = self.help
        if not self.required and (self.default is not None or self.nullable):
            schema["default"] = self.default
        return schema


@dataclass(frozen=True, slots=True)
class Record:
    """An object with named members; gives a dict of the members that were there and right."""

    members: Mapping[str, Member]
    name: str = "object"
    notes: Mapping[str, str] = field(default_factory=dict)

    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        if not isinstance(value, dict):
            faults.add(pointer, "wrong_type", f"{shown(value)} is not an object")
            return INVALID
        found: dict[str, Any] = {}
        for name, member in self.members.items():
            if name not in value:
                if member.required:
                    faults.add(f"{pointer}/{name}", "required", f"{name} is missing")
                continue
            if value[name] is None and member.nullable:
                found[name] = None
                continue
            read = member.kind.read(value[name], f"{pointer}/{name}", faults)
            if read is not INVALID:
                found[name] = read
        self._unknown(value, pointer, faults)
        return found

    def _unknown(self, value: Mapping[str, object], pointer: str, faults: Faults) -> None:
        names = [name for name in value if name not in self.members]
        for name in names[:MAX_UNKNOWN]:
            hint = self.notes.get(name) or nearest(name, self.members)
            faults.add(pointer_to(pointer, name), "unknown_member", f"{shown(name)} is not a member here{hint}")
        if len(names) > MAX_UNKNOWN:
            faults.add(pointer, "unknown_member", f"and {len(names) - MAX_UNKNOWN:,} more unknown members")

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: member.schema() for name, member in self.members.items()},
            "required": [name for name, member in self.members.items() if member.required],
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Either:
    """A word, an object that spells it out, or a list: the JSON type tells which."""

    word: Kind | None = None
    record: Kind | None = None
    items: Kind | None = None

    def read(self, value: object, pointer: str, faults: Faults) -> Any:
        for json_type, kind in ((str, self.word), (dict, self.record), (list, self.items)):
            if kind is not None and isinstance(value, json_type):
                return kind.read(value, pointer, faults)
        names = {"a text": self.word, "an object": self.record, "a list": self.items}
        wanted = " or ".join(name for name, kind in names.items() if kind is not None)
        faults.add(pointer, "wrong_type", f"{shown(value)} is not {wanted}")
        return INVALID

    def schema(self) -> dict[str, Any]:
        return {"oneOf": [kind.schema() for kind in (self.word, self.record, self.items) if kind is not None]}
