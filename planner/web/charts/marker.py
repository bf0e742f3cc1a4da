"""Marker shapes: one for each GPU type, told apart without colour."""

from __future__ import annotations

_OUTLINES: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle": ((0, -1.25), (1.2, 0.8), (-1.2, 0.8)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "cross": (
        (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
        (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
    ),
    "pentagon": ((0, -1.2), (1.15, -0.37), (0.7, 0.97), (-0.7, 0.97), (-1.15, -0.37)),
    "kite": ((-1.2, -0.8), (1.2, -0.8), (0, 1.25)),
    "bar": ((-1.3, -0.5), (1.3, -0.5), (1.3, 0.5), (-1.3, 0.5)),
}  # fmt: skip
SHAPES = ("circle", *_OUTLINES)


def path_of(shape: str, size: float) -> str:
    """The closed path of a marker around 0,0; `size` is about its radius in pixels."""
    points = [f"{x * size:.1f} {y * size:.1f}" for x, y in _OUTLINES[shape]]
    return f"M{'L'.join(points)}z"
