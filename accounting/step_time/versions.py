"""Sets of constants as versions: the next one's name, what it inherits, what moved in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, TypeVar

from accounting.facts.calibration import Calibration, DeviceRow, EngineRow, FabricRow, KernelRow, LowPrecisionRow

_Row = TypeVar("_Row", DeviceRow, EngineRow, FabricRow, KernelRow, LowPrecisionRow)
_NOTICED = 5e-4
"""Relative change that four significant digits show."""
_COUNTED = frozenset({"rows", "reach", "computes", "measured"})
"""What says which steps a row rests on, and not what was fitted on them."""
_TABLES = ("devices", "engines", "kernels", "low_precision")


@dataclass(frozen=True, slots=True)
class Moved:
    """One value of one row that two sets have differently."""

    row: str
    """Table and name of the row."""
    field: str
    before: Any
    after: Any

    @property
    def ratio(self) -> float | None:
        """After over before, of numbers."""
        numbers = isinstance(self.before, float) and isinstance(self.after, float) and self.before
        return self.after / self.before if numbers else None


def next_version(day: str, taken: Collection[str]) -> str:
    """The name after the day's last one: day.1, day.2, ... `day` is an ISO date."""
    numbers = [name.removeprefix(f"{day}.") for name in taken if name.startswith(f"{day}.")]
    return f"{day}.{max((int(number) for number in numbers if number.isdigit()), default=0) + 1}"


def inherited(before: Calibration, after: Calibration) -> Calibration:
    """`after`, in which families without measured steps follow the family they are `like`.

    Constants in which the two were equal before stay equal; those that a family has of its own stay as they are.
    """
    devices = dict(after.devices)
    for name, row in before.devices.items():
        if row.like and not after.devices[name].rows:
            model, moved = before.devices[row.like], after.devices[row.like]
            same = [item.name for item in fields(row) if isinstance(getattr(row, item.name), float)]
            values = {field: getattr(moved, field) for field in same if getattr(row, field) == getattr(model, field)}
            devices[name] = replace(after.devices[name], **values)
    return replace(after, devices=MappingProxyType(devices))


def stamped(before: Calibration, after: Calibration, version: str, day: str) -> Calibration:
    """`after` under its own version; the rows that a fit moved carry its date."""

    def dated(old: Mapping[str, _Row], new: Mapping[str, _Row]) -> Mapping[str, _Row]:
        return MappingProxyType({name: _dated(old[name], row, day) for name, row in new.items()})

    return replace(
        after,
        version=version,
        devices=dated(before.devices, after.devices),
        engines=dated(before.engines, after.engines),
        kernels=dated(before.kernels, after.kernels),
        low_precision=dated(before.low_precision, after.low_precision),
        fabric=_dated(before.fabric, after.fabric, day),
    )


def _dated(old: _Row, new: _Row, day: str) -> _Row:
    fitted = [item.field for item in _differences("", old, new) if item.field not in _COUNTED]
    return replace(new, date=day) if fitted else new


def moved(before: Calibration, after: Calibration) -> list[Moved]:
    """Every value that differs by more than four digits show, row by row."""
    found = []
    for table in _TABLES:
        old = getattr(before, table)
        for name, row in getattr(after, table).items():
            found += _differences(f"{table} {name}", old[name], row)
    return found + _differences("fabric", before.fabric, after.fabric)


def _differences(place: str, old: Any, new: Any) -> list[Moved]:
    pairs = [(item.name, getattr(old, item.name), getattr(new, item.name)) for item in fields(new)]
    return [Moved(place, name, one, other) for name, one, other in pairs if _differ(one, other)]


def _differ(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(other - one) > _NOTICED * abs(one)
    return bool(one != other)


def moved_table(rows: list[Moved]) -> str:
    """What moved as aligned text: row, field, before, after, and by how much."""
    if not rows:
        return "no constant moved"
    return "\n".join(
        f"{row.row:32}{row.field:30}{_said(row.before):>24} -> {_said(row.after):24}"
        + ("" if row.ratio is None else f"{row.ratio - 1:+.1%}")
        for row in rows
    )


def _said(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(_said(item) for item in value) or "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
