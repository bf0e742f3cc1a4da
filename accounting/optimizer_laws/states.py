"""State bytes of a registry row on one tensor, and what an optimizer holds beside its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from accounting.facts.optimizers import Constant, Optimizer, Slot
from accounting.optimizer_laws.extents import EXTENTS, SHAPE_FREE, history_pairs
from accounting.optimizer_laws.storages import STORAGES, StorageContext
from accounting.optimizer_laws.view import TensorView
from accounting.units import Bytes

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes on the parameter's device and in host memory, as the view's dims broadcast."""

    device: Bytes
    host: Bytes

    @property
    def total(self) -> Bytes:
        """Device and host bytes together. [byte]"""
        return self.device + self.host


def _projected(view: TensorView, options: Options) -> bool:
    targets = options.get("targets") or ()
    return view.hidden and (not targets or any(target in view.name for target in targets))


PREDICATES: Mapping[str, Callable[[TensorView, Options], bool]] = MappingProxyType(
    {
        "all": lambda view, options: True,
        "matrix": lambda view, options: view.matrix,
        "vector": lambda view, options: not view.matrix,
        "one_dimensional": lambda view, options: view.rank == 1,
        "two_dimensional": lambda view, options: view.two_dimensional,
        "hidden": lambda view, options: view.hidden,
        "not_hidden": lambda view, options: not view.hidden,
        "projected": _projected,
        "not_projected": lambda view, options: not _projected(view, options),
        "matrix_not_projected": lambda view, options: view.matrix and not _projected(view, options),
        "zero": lambda view, options: view.zero_initialised,
        "nonzero": lambda view, options: not view.zero_initialised,
    }
)
_SHAPE_FREE_PREDICATES = frozenset({"all", "zero", "nonzero"})


def holds(condition: str | None, options: Options) -> bool:
    """Whether a row's `when` holds: `name`, `!name`, `?name` (not null), `name=value`; None always does."""
    if condition is None:
        return True
    name, equals, value = condition.partition("=")
    if equals:
        return bool(options.get(name) == value)
    if name.startswith("!"):
        return not options.get(name[1:])
    if name.startswith("?"):
        return options.get(name[1:]) is not None
    return bool(options.get(name))


def complete_options(optimizer: Optimizer, given: Options) -> dict[str, Any]:
    """Every option of the row: the library's default where the request gives none. Assumes `given` was checked."""
    return {option.name: option.default for option in optimizer.options} | dict(given)


def needs_shapes(optimizer: Optimizer) -> bool:
    """True where an element count does not decide the state bytes: a bare parameter count then has no answer."""
    return any(slot.extent not in SHAPE_FREE or slot.where not in _SHAPE_FREE_PREDICATES for slot in optimizer.slots)


def state_bytes(
    optimizer: Optimizer,
    options: Options,
    view: TensorView,
    parameter_itemsize: int,
    state_itemsize: int | None = None,
) -> StateBytes:
    """State of one tensor as the optimizer sees it, after the first step. [byte]

    bytes = Σ over the row's slots that apply: count · storage(extent(view))

    `parameter_itemsize` is of what is stepped (4 under an fp32 master), `state_itemsize` replaces the dtype of
    unquantised moments. Not here: `constant_bytes`. A tensor that never gets a gradient has no state unless
    `optimizer.allocated_at_init`. Source: the row's.
    """
    complete = complete_options(optimizer, options)
    device = host = view.elements * 0
    for slot in optimizer.slots:
        if not _applies(slot, view, complete, parameter_itemsize):
            continue
        seen = view.gathered if slot.whole else view
        amount = _slot_bytes(slot, seen, complete, parameter_itemsize, state_itemsize)
        if slot.host and not any(complete.get(option) for option in slot.device_when):
            host = host + amount
        else:
            device = device + amount
    return StateBytes(device=device, host=host)


def _applies(slot: Slot, view: TensorView, options: Options, parameter_itemsize: int) -> bool:
    return (
        holds(slot.when, options)
        and slot.parameter_bytes in {None, parameter_itemsize}
        and PREDICATES[slot.where](view, options)
    )


def _slot_bytes(
    slot: Slot, view: TensorView, options: Options, parameter_itemsize: int, state_itemsize: int | None
) -> Bytes:
    context = StorageContext(
        options=options,
        parameter_itemsize=parameter_itemsize,
        state_itemsize=None if slot.extent in {"scalar", "dimensions"} else state_itemsize,
        embedding=view.embedding,
    )
    elements = EXTENTS[slot.extent](view, options)
    return np.asarray(slot.count * STORAGES[slot.storage](elements, context), dtype=np.int64)


def constant_bytes(optimizer: Optimizer, options: Options, groups: int = 1) -> tuple[int, int]:
    """(device, host) bytes of one optimizer object beside its tensors' states: maps, counters, rates of its groups."""
    complete = complete_options(optimizer, options)
    device = host = 0
    for constant in optimizer.constants:
        if holds(constant.when, complete):
            amount = constant.bytes * _times(constant, complete, groups)
            device, host = (device, host + amount) if constant.host else (device + amount, host)
    return device, host


def _times(constant: Constant, options: Options, groups: int) -> int:
    if constant.per == "group":
        return groups
    return history_pairs(options) if constant.per == "pair" else 1


def paged_bytes(optimizer: Optimizer, options: Options, view: TensorView, parameter_itemsize: int) -> Bytes:
    """The part of a tensor's state that lives in managed memory: full-size states of tensors from 1e5 elements. [byte]

    Block scales and maps are never paged. Source: bitsandbytes 0.50.2 get_state_buffer.
    """
    nothing = view.elements * 0
    if not optimizer.paged:
        return nothing
    complete = complete_options(optimizer, options)
    whole = state_bytes(optimizer, options, view, parameter_itemsize).device
    eight_bit = "min_8bit_size" in complete and not (view.embedding and complete.get("embeddings_32bit"))
    per_element = sum(slot.count for slot in optimizer.slots) if eight_bit else 0
    states = np.where(view.elements >= complete.get("min_8bit_size", 0), per_element * view.elements, whole)
    return np.where(view.elements >= optimizer.paged_minimum, states if eight_bit else whole, nothing)
