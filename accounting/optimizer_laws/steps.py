"""What one optimizer step allocates, moves and computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accounting.facts.optimizers import Optimizer, Temporary
from accounting.optimizer_laws.states import Options, complete_options, state_bytes
from accounting.optimizer_laws.view import TensorView
from accounting.units import Bytes, Floats

_SAMPLE_SIDE = 4096
_NEWTON_SCHULZ_STEPS = 5
_HALF = 2


def step_temporary(optimizer: Optimizer, options: Options) -> Temporary:
    """The temporary of the implementation that runs: fused where asked, else foreach or the loop, else the default."""
    complete = complete_options(optimizer, options)
    by_kind = {temporary.kind: temporary for temporary in optimizer.temporaries}
    if complete.get("fused") and "fused" in by_kind:
        return by_kind["fused"]
    if complete.get("foreach") is not None:
        wanted = "foreach" if complete["foreach"] else "single-tensor"
        return by_kind.get(wanted, optimizer.temporaries[0])
    return optimizer.temporaries[0]


def step_temporary_bytes(
    optimizer: Optimizer,
    options: Options,
    views: Sequence[tuple[TensorView, Bytes | int]],
    parameter_itemsize: int,
) -> Bytes:
    """Bytes a step holds at once beside parameters, gradients and states. [byte per rank]

    foreach: copies · all elements; single-tensor: copies · the largest tensor; fused: 0; newton-schulz: of a hidden
    matrix of n elements and shorter side r the update in the parameters' dtype, two bf16 iterates and two bf16 Gram
    matrices, e·n + 4·n + 4·r², or AdamW's foreach copy of the other tensors where that is more.

    `views` are (tensor, how often it stands on the rank).
    Source: peaks of live storages through one real step of torch 2.13.0; memory formulas C5.
    """
    temporary = step_temporary(optimizer, options)
    width = temporary.itemsize or parameter_itemsize
    copies = temporary.copies
    if parameter_itemsize == _HALF and temporary.half_copies is not None:
        copies = temporary.half_copies
    if temporary.kind == "fused" or not views:
        return np.asarray(0, dtype=np.int64)
    if temporary.kind == "foreach":
        return _scaled(copies * width, _all(views))
    if temporary.kind == "newton-schulz":
        hidden = [view for view, _ in views if view.hidden]
        rest = [(view, count) for view, count in views if not view.hidden]
        return np.maximum(_newton_schulz(hidden, parameter_itemsize), parameter_itemsize * _all(rest))
    return _scaled(copies * width, _largest([view for view, _ in views]))


def _scaled(factor: float, elements: Bytes) -> Bytes:
    return np.asarray(np.ceil(factor * elements), dtype=np.int64)


def _all(views: Sequence[tuple[TensorView, Bytes | int]]) -> Bytes:
    return sum((view.elements * count for view, count in views), np.asarray(0, dtype=np.int64))


def _newton_schulz(hidden: Sequence[TensorView], parameter_itemsize: int) -> Bytes:
    most = np.asarray(0, dtype=np.int64)
    for view in hidden:
        shorter = np.minimum(view.dims[0], view.dims[1])
        most = np.maximum(most, (parameter_itemsize + 4) * view.elements + 4 * shorter**2)
    return most


def _largest(views: Sequence[TensorView]) -> Bytes:
    largest = np.asarray(0, dtype=np.int64)
    for view in views:
        largest = np.maximum(largest, view.elements)
    return largest


def step_traffic_bytes_per_element(
    optimizer: Optimizer,
    options: Options,
    *,
    parameter_itemsize: int,
    gradient_itemsize: int,
    copy_itemsize: int = 0,
) -> float:
    """Device memory traffic of one step per local parameter. [byte per parameter]

    fused: 2·state + 2·parameter + gradient + copy (the 16-bit weights written from a master); the foreach default
    streams `moved_elements` elements in their place. States are those of a 4096 × 4096 matrix.
    Source: element counts of torch's kernels; time model 5.9 (34 to 38 bytes for mixed-precision Adam with clipping).
    """
    side = np.asarray(_SAMPLE_SIDE, dtype=np.int64)
    sample = TensorView(dims=(side, side), role="mlp")
    state = float(state_bytes(optimizer, options, sample, parameter_itemsize).device) / _SAMPLE_SIDE**2
    once = 2 * state + 2 * parameter_itemsize + gradient_itemsize
    unfused = step_temporary(optimizer, options).kind == "foreach" and optimizer.moved_elements is not None
    moved = optimizer.moved_elements * parameter_itemsize if unfused and optimizer.moved_elements else once
    return moved + copy_itemsize


def step_flops(optimizer: Optimizer, options: Options, view: TensorView) -> Floats:
    """Matrix FLOP of one step on a tensor: Newton-Schulz on hidden matrices, nothing elsewhere. [FLOP]

    steps · (4·r²·n + 2·r³), r the shorter, n the longer side. Source: time model 5.9.
    """
    if step_temporary(optimizer, options).kind != "newton-schulz" or not view.hidden:
        return np.zeros(np.shape(view.elements))
    steps = complete_options(optimizer, options).get("ns_steps", _NEWTON_SCHULZ_STEPS)
    shorter = np.minimum(view.dims[0], view.dims[1]).astype(np.float64)
    longer = np.maximum(view.dims[0], view.dims[1]).astype(np.float64)
    return np.asarray(steps * (4.0 * shorter**2 * longer + 2.0 * shorter**3), dtype=np.float64)
