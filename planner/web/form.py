"""A form over a request of the contract: typed text in, JSON out, faults back at their fields by the same pointers.

No meaning lives here: what cannot be read as a number goes on as the text it is, and the one validation of the house
says what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.http import QueryDict

from planner.errors import Fault
from planner.web.form_more import leftover, merged
from planner.web.form_rows import EXAMPLES, MODEL_KINDS, MODEL_ROWS, FieldRow

LARGEST_EXPONENT = 30
_LETTERS = {"k": 3, "m": 6, "b": 9, "g": 9, "t": 12}
_PER_CENT = 100


@dataclass(frozen=True)
class Choice:
    """One entry of a list: what is sent, what is read, and whether it is ticked."""

    value: str
    label: str
    chosen: bool = False
    group: str = ""


@dataclass(frozen=True)
class BoundField:
    """A field with what was typed and what is wrong with it."""

    row: FieldRow
    value: str
    messages: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def described_by(self) -> str:
        """Ids of the message and the help, for aria-describedby."""
        ids = [f"{self.row.name}-error"] if self.messages else []
        return " ".join([*ids, f"{self.row.name}-help"] if self.row.help else ids)

    @property
    def chosen_words(self) -> str:
        """What is ticked, in words."""
        return ", ".join(choice.label for choice in self.choices if choice.chosen)

    @property
    def echo(self) -> str:
        """The number as it was understood, where it was not typed plainly: 15e9 reads 15,000,000,000."""
        number = read_number(self.value)
        if self.row.kind != "whole" or not isinstance(number, int) or str(number) == self.value.strip():
            return ""
        return f"{number:,}"


Start = Mapping[str, str | tuple[str, ...]]
"""What a form starts with, by field."""
_MANY = ("list", "wholes")


@dataclass
class Form:
    """What the page shows: every field bound, the faults in order with links to their fields."""

    fields: Mapping[str, BoundField]
    kind: str
    summary: Sequence[tuple[str, str, str]] = field(default_factory=list)

    @property
    def opens(self) -> bool:
        """Whether the folded part holds a fault and must be open."""
        return any(bound.messages and bound.row.folded for bound in self.fields.values())

    @property
    def uses_fold(self) -> bool:
        """Whether something in the folded part is set away from its start."""
        return any(bound.row.folded and bound.value not in ("", bound.row.start) for bound in self.fields.values())


def read_number(typed: str) -> int | float | str:
    """15e9, 15B, 15_000_000_000 and 15,000,000,000 are the same number; what is no number stays the text it is."""
    text = typed.strip().replace("_", "").replace(",", "").replace("\u00a0", "").replace(" ", "")
    power = _LETTERS.get(text[-1:].lower(), 0)
    try:
        number = Decimal(text[:-1] if power else text).scaleb(power)
    except (ArithmeticError, ValueError):
        return typed.strip()
    # int() of 1e999999999 would fill the memory, so such a number goes on as text and is refused there.
    if not number.is_finite() or number.adjusted() > LARGEST_EXPONENT:
        return typed.strip()
    return int(number) if number == number.to_integral_value() else float(number)


def payload_from(posted: QueryDict, rows: Sequence[FieldRow]) -> tuple[dict[str, Any], list[Fault]]:
    """The request a form of `rows` means, and what could not even be read as JSON."""
    faults: list[Fault] = []
    payload = fields_from(posted, rows, {"model": _model(posted, faults)}, faults)
    return payload, faults


def fields_from(
    posted: QueryDict, rows: Sequence[FieldRow], payload: dict[str, Any], faults: list[Fault]
) -> dict[str, Any]:
    """The members that the fields of `rows` fill, put into `payload`."""
    more: Any = {}
    for row in rows:
        value = _read(row, posted)
        if row.pointer == "":
            more = value or {}
        elif value is not None or row.nullable:
            _put(payload, row.pointer, value)
    if not isinstance(more, Mapping):
        faults.append(Fault("/more", "not_json", 'this is no JSON object; write {"member": value} or leave it empty'))
        return payload
    whole: dict[str, Any] = merged(payload, more)
    return whole


def _model(posted: QueryDict, faults: list[Fault]) -> Any:
    kind = posted.get("model_kind", "catalog")
    if kind == "count":
        return {"parameters": read_number(posted.get("parameters", ""))}
    if kind != "config":
        return posted.get("model", "").strip()
    typed = posted.get("config", "")
    try:
        return {"config": json.loads(typed)}
    except RecursionError:
        faults.append(Fault("/model/config", "not_json", "this is nested too deeply to be a config.json"))
    except ValueError as problem:
        where = f" in line {problem.lineno}" if isinstance(problem, json.JSONDecodeError) else ""
        faults.append(
            Fault("/model/config", "not_json", f"this is not JSON{where}; paste the whole file, braces included")
        )
    return {"config": {}}


def _read(row: FieldRow, posted: QueryDict) -> Any:
    """A field's value as the contract takes it; None where it was left empty."""
    if row.kind in _MANY:
        values = [value for value in posted.getlist(row.name) if value]
        return [read_number(value) for value in values] if row.kind == "wholes" else values
    typed = str(posted.get(row.name, "")).strip()
    if not typed:
        return None
    if row.kind == "object":
        return _object(typed)
    if row.kind == "percent":
        number = read_number(typed)
        return number if isinstance(number, str) else round(number / _PER_CENT, 6)
    if row.kind == "autolist":
        return typed if typed == "auto" else [read_number(part) for part in typed.replace(",", " ").split()]
    return typed if row.kind == "text" else read_number(typed)


def _object(typed: str) -> Any:
    """A small JSON value typed into a field; what is none stays the text it is."""
    try:
        return json.loads(typed)
    except (ValueError, RecursionError):
        return typed


def _put(payload: dict[str, Any], pointer: str, value: Any) -> None:
    *above, last = pointer.strip("/").split("/")
    inside = payload
    for name in above:
        inside = inside.setdefault(name, {})
    inside[last] = value


def bind(
    posted: QueryDict | None,
    rows: Sequence[FieldRow],
    choices: Mapping[str, Sequence[Choice]],
    faults: Iterable[Fault] = (),
    start: Start | None = None,
) -> Form:
    """The form as it is shown: what was typed (or what it starts with) and each fault at its field."""
    kind = posted.get("model_kind", "catalog") if posted is not None else (start or {}).get("model_kind", "catalog")
    kind = kind if kind in MODEL_KINDS else "catalog"
    by_name: dict[str, list[str]] = {}
    summary = []
    for fault in faults:
        row = field_of(fault.pointer, str(kind), rows)
        summary.append((row.name if row else "", row.label if row else fault.pointer or "Request", fault.detail))
        if row:
            by_name.setdefault(row.name, []).append(_with_place(fault, row))
    fields = {}
    for row in (*MODEL_ROWS, *rows):
        typed = _typed(row, posted, start or {})
        fields[row.name] = BoundField(
            row,
            value=typed if isinstance(typed, str) else "",
            messages=tuple(by_name.get(row.name, ())),
            choices=tuple(_tick(choice, typed) for choice in choices.get(row.name, ())),
        )
    return Form(fields, str(kind), summary)


def _typed(row: FieldRow, posted: QueryDict | None, start: Start) -> str | tuple[str, ...]:
    if posted is not None:
        return tuple(posted.getlist(row.name)) if row.kind in _MANY else str(posted.get(row.name, ""))
    # An earlier request that leaves a member out means the contract's default, never the empty form's example.
    return start.get(row.name, "" if start and row.name in EXAMPLES else row.start)


def _tick(choice: Choice, typed: str | tuple[str, ...]) -> Choice:
    chosen = choice.value in typed if isinstance(typed, tuple) else choice.value == typed
    return Choice(choice.value, choice.label, chosen, choice.group)


def field_of(pointer: str, kind: str, rows: Sequence[FieldRow]) -> FieldRow | None:
    """The field whose member holds `pointer`: the longest one that is a whole part of it."""
    if pointer == "/model" or pointer.startswith("/model/"):
        return MODEL_ROWS[MODEL_KINDS.index(kind)]
    own = [row for row in rows if row.pointer]
    held = [row for row in own if pointer == row.pointer or pointer.startswith(f"{row.pointer}/")]
    if held:
        return max(held, key=lambda row: len(row.pointer))
    # A whole group is missing or wrong: its first field is where people can put that right.
    group = next((row for row in own if pointer and row.pointer.startswith(f"{pointer}/")), None)
    return group or next((row for row in rows if pointer and not row.pointer), None)


def _with_place(fault: Fault, row: FieldRow) -> str:
    """A fault inside a pasted file says where in it."""
    inside = fault.pointer[len(row.pointer) :].strip("/")
    return f"{inside}: {fault.detail}" if inside and (row.kind == "json" or not row.pointer) else fault.detail


def start_from(request: Mapping[str, Any], rows: Sequence[FieldRow]) -> dict[str, str | tuple[str, ...]]:
    """The form filled from an earlier request, so that one thing can be changed."""
    found: dict[str, str | tuple[str, ...]] = dict(_start_model(request.get("model")))
    for row in rows:
        value = _member(request, row.pointer) if row.pointer else None
        if value is None:
            continue
        if row.kind in _MANY:
            found[row.name] = tuple(map(str, value)) if isinstance(value, list) else ()
        elif row.kind == "object":
            found[row.name] = json.dumps(value, ensure_ascii=False)
        elif isinstance(value, list):
            found[row.name] = " ".join(map(str, value))
        elif row.kind == "percent" and isinstance(value, (int, float)):
            found[row.name] = f"{value * _PER_CENT:g}"
        else:
            found[row.name] = str(value)
    more = leftover(request, payload_from(_as_sent(found), rows)[0])
    return found | ({"more": json.dumps(more, ensure_ascii=False)} if more else {})


def _as_sent(start: Start) -> QueryDict:
    """A start as a browser would send it back."""
    sent = QueryDict(mutable=True)
    for name, value in start.items():
        sent.setlist(name, list(value) if isinstance(value, tuple) else [value])
    return sent


def _start_model(model: object) -> dict[str, str]:
    if isinstance(model, Mapping) and "config" in model:
        return {"model_kind": "config", "config": json.dumps(model["config"], indent=2)}
    if isinstance(model, Mapping) and "parameters" in model:
        return {"model_kind": "count", "parameters": str(model["parameters"])}
    return {"model_kind": "catalog", "model": model if isinstance(model, str) else ""}


def _member(request: Mapping[str, Any], pointer: str) -> Any:
    inside: Any = request
    for name in pointer.strip("/").split("/"):
        inside = inside.get(name) if isinstance(inside, Mapping) else None
    return inside
