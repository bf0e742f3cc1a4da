"""How much compressed moments lose, measured on a model's own: 8-bit blocks, and a row times a column."""

from __future__ import annotations

from typing import Any

import torch

BLOCK = 256
LEVELS = 127


def noise_of(model: Any, optimizer: Any) -> list[dict[str, Any]]:
    """For every matrix: relative errors of the 8-bit moments and of the factored second moment.

    Errors are Frobenius norms over the moment's own; `update` is the error of the step m / (√v + ε) that follows.
    """
    found = []
    for name, parameter in model.named_parameters():
        state = optimizer.state.get(parameter, {})
        if parameter.ndim > 1 and "exp_avg_sq" in state:
            found.append({"layer": name, "shape": list(parameter.shape), **_errors(state)})
    return found


def _errors(state: Any) -> dict[str, Any]:
    first, second = state["exp_avg"].float(), state["exp_avg_sq"].float()
    blocks = (_dynamic(first, signed=True), _dynamic(second, signed=False))
    factored = rank_one(second)
    step = first / (second.sqrt() + 1e-8)
    return {
        "first_moment_8bit": _relative(blocks[0], first),
        "second_moment_8bit": _relative(blocks[1], second),
        "update_8bit": _relative(blocks[0] / (blocks[1].sqrt() + 1e-8), step),
        "second_moment_rank_1": _relative(factored, second),
        "update_rank_1": _relative(first / (factored.sqrt() + 1e-8), step),
        "method": "bitsandbytes" if _library() is not None else "linear blocks",
    }


def rank_one(second: Any) -> Any:
    """Adafactor's second moment: row sums times column sums over the total (Shazeer & Stern 2018, algorithm 1)."""
    rows, columns = second.sum(-1, keepdim=True), second.sum(-2, keepdim=True)
    return rows * columns / rows.sum(-2, keepdim=True).clamp_min(1e-38)


def _relative(found: Any, wanted: Any) -> float:
    return float((found - wanted).norm() / wanted.norm().clamp_min(1e-38))


def _library() -> Any:
    try:
        import bitsandbytes.functional as library  # noqa: PLC0415 - only where it is installed
    except ImportError:
        return None
    return library


def _dynamic(moment: Any, *, signed: bool) -> Any:
    """What comes back from 8-bit blocks of 256 with bitsandbytes' own code map, or from linear levels without it."""
    library = _library()
    if library is None:
        return _linear(moment, signed=signed)
    code = library.create_dynamic_map(signed=signed)
    packed, state = library.quantize_blockwise(moment.contiguous(), code=code, blocksize=BLOCK)
    return library.dequantize_blockwise(packed, quant_state=state).view_as(moment)


def _linear(moment: Any, *, signed: bool) -> Any:
    flat = torch.nn.functional.pad(moment.flatten(), (0, -moment.numel() % BLOCK)).view(-1, BLOCK)
    levels = LEVELS if signed else 2 * LEVELS + 1
    scale = flat.abs().amax(1, keepdim=True).clamp_min(1e-38) / levels
    return ((flat / scale).round() * scale).flatten()[: moment.numel()].view_as(moment)
