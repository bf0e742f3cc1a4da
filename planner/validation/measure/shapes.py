"""The library's own class on the meta device: every parameter's name, shape and number, no byte allocated."""

from __future__ import annotations

from collections import Counter
from typing import Any

from planner.validation.measure.models import built


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Counts and shapes; tied weights once, as the class itself counts them. Raises Refused."""
    model = built(job, dtype="bf16", device="meta")
    parameters = list(model.named_parameters())
    shapes = Counter(tuple(parameter.shape) for _, parameter in parameters)
    return {
        "parameters": sum(parameter.numel() for _, parameter in parameters),
        "trainable_parameters": sum(parameter.numel() for _, parameter in parameters if parameter.requires_grad),
        "tensors": len(parameters),
        "shapes": sorted([list(shape), count] for shape, count in shapes.items()),
        "class": type(model).__name__,
    }
