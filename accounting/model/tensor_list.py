"""Any model as the tensors it holds: the contract's `tensors`, validated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from accounting.model.errors import ConfigError, Fault
from accounting.model.reader import MAX_PARAMETERS, MISSING, Reader, shown
from accounting.model.tensors import Inventory, Tensor

MAX_TENSORS: Final = 100_000
MAX_RANK: Final = 16
_MEMBERS: Final = ("name", "shape", "count", "trainable")
_MATRIX_RANK: Final = 2


def inventory_of_tensors(tensors: Sequence[Mapping[str, Any]]) -> Inventory:
    """An inventory of bare tensors: `shape` is required, `name` defaults to its place, `count` to 1, trainable to true.

    Raises ConfigError with every fault, pointers below the list (`/3/shape`).
    """
    if not isinstance(tensors, list | tuple) or not tensors:
        reader = Reader({})
        reader.fault("", "not_a_list", f"tensors must be a non-empty list of objects, not {shown(tensors)}")
        raise ConfigError(reader.faults)
    reader = Reader({})
    if len(tensors) > MAX_TENSORS:
        reader.fault("", "too_many", f"{len(tensors)} tensors; at most {MAX_TENSORS}: use count for equal ones")
        raise ConfigError(reader.faults)
    built = [_tensor(reader, index, tensor) for index, tensor in enumerate(tensors)]
    total = sum(tensor.parameters for tensor in built if tensor is not None)
    if not reader.faults and total > MAX_PARAMETERS:
        reader.fault("", "too_large", f"{total} parameters in total; at most {MAX_PARAMETERS}")
    if reader.faults:
        raise ConfigError(reader.faults)
    return Inventory(first=tuple(tensor for tensor in built if tensor is not None))


def _tensor(parent: Reader, index: int, source: Any) -> Tensor | None:
    if not isinstance(source, Mapping):
        parent.fault(str(index), "not_an_object", f"a tensor is an object with a shape, not {shown(source)}")
        return None
    reader = parent.nested(source, str(index))
    reader.unknown_members(_MEMBERS)
    count = reader.integer(("count",), 1, high=MAX_PARAMETERS)
    trainable = reader.flag(("trainable",), True)
    name = source.get("name", f"tensor_{index}")
    if not isinstance(name, str):
        reader.fault("name", "not_a_string", f"name must be a string, not {shown(name)}")
    shape = _shape(reader)
    if shape is None or count is MISSING or trainable is MISSING or not isinstance(name, str):
        return None
    if prod(shape) * count > MAX_PARAMETERS:
        detail = f"shape times count is more than {MAX_PARAMETERS} parameters"
        reader.fault("shape", "too_large", detail)
        return None
    return Tensor(name=name, shape=shape, count=count, linear=len(shape) == _MATRIX_RANK, trainable=trainable)


def _shape(reader: Reader) -> tuple[int, ...] | None:
    """The sizes; [] is a scalar. Every size is at least 1: an empty parameter holds nothing to count."""
    if "shape" not in reader.source:
        reader.fault("shape", "required", "shape is missing: a list of sizes, [] for a scalar")
        return None
    found = reader.source["shape"]
    if not isinstance(found, list | tuple) or len(found) > MAX_RANK:
        reader.fault("shape", "wrong_list", f"shape must be a list of at most {MAX_RANK} sizes, not {shown(found)}")
        return None
    good = True
    for place, size in enumerate(found):
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_PARAMETERS:
            detail = f"size {place} of the shape must be a whole number from 1 to {MAX_PARAMETERS}, not {shown(size)}"
            reader.faults.append(Fault(f"{reader.pointer}/shape/{place}", "out_of_range", detail))
            good = False
    return tuple(found) if good else None
