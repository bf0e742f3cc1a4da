"""Refitting the constants: damped least squares on the logarithm of predicted over measured, with priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from accounting.facts.calibration import Calibration
from accounting.partition import Partition
from accounting.scenario import Scenario
from accounting.step_time.step import step_time
from accounting.units import Floats

_TABLES = ("devices", "engines", "kernels", "low_precision")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Measured steps of one recipe."""

    scenario: Scenario
    partition: Partition
    measured: Floats
    """Seconds, (N, 1)."""
    weight: Floats
    """Of each row's squared error, (N, 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """One constant that may move: `table` of Calibration (or `fabric`), row, field."""

    table: str
    row: str
    field: str
    spread: float = 0.5
    """Prior: standard deviation of its logarithm around the value it starts from."""
    most: float = np.inf
    """Upper end of what is physical."""


def value_of(calibration: Calibration, free: Free) -> float:
    """The constant's present value."""
    row = calibration.fabric if free.table == "fabric" else getattr(calibration, free.table)[free.row]
    return float(getattr(row, free.field))


def with_values(calibration: Calibration, frees: Sequence[Free], values: Sequence[float]) -> Calibration:
    """The same set with the free constants replaced."""
    tables = {name: dict(getattr(calibration, name)) for name in _TABLES}
    fabric = calibration.fabric
    for free, value in zip(frees, values, strict=True):
        if free.table == "fabric":
            fabric = replace(fabric, **{free.field: value})  # type: ignore[arg-type]
        else:
            tables[free.table][free.row] = replace(tables[free.table][free.row], **{free.field: value})
    frozen: Mapping[str, Mapping[str, object]] = {name: MappingProxyType(table) for name, table in tables.items()}
    return replace(calibration, fabric=fabric, **frozen)  # type: ignore[arg-type]


def log_errors(observations: Sequence[Observation], calibration: Calibration) -> list[Floats]:
    """log(predicted / measured) of every row; 0 where the prediction is unknown."""
    errors = []
    for item in observations:
        predicted = step_time(item.scenario, item.partition, calibration).step_seconds
        errors.append(np.nan_to_num(np.log(predicted / item.measured)))
    return errors


def fit(
    observations: Sequence[Observation],
    calibration: Calibration,
    frees: Sequence[Free],
    *,
    iterations: int = 12,
    robust: float = 0.25,
    touches: Callable[[Free, Observation], bool] = lambda free, observation: True,
) -> Calibration:
    """Levenberg-Marquardt on Σ w·ρ(log error)² + Σ (log(x/x0)/spread)².

    ρ weighs rows beyond `robust` like Huber's loss. `touches` says which observations a constant can move: the others
    are not evaluated again for its derivative.
    """
    start = np.log([value_of(calibration, free) for free in frees])
    top = np.log([free.most for free in frees])
    spread = np.asarray([free.spread for free in frees])
    weight = np.concatenate([item.weight.ravel() for item in observations])
    touched = [[index for index, item in enumerate(observations) if touches(free, item)] for free in frees]
    edges = np.cumsum([0, *(item.measured.size for item in observations)])

    def errors_at(point: Floats) -> Floats:
        found = log_errors(observations, with_values(calibration, frees, np.exp(point).tolist()))
        return np.concatenate([part.ravel() for part in found])

    def cost_of(errors: Floats, point: Floats) -> float:
        size = np.abs(errors)
        huber = np.where(size <= robust, errors**2, 2 * robust * size - robust**2)
        return float((weight * huber).sum() + (((point - start) / spread) ** 2).sum())

    point, damping = start.copy(), 1e-2
    errors = errors_at(point)
    cost = cost_of(errors, point)
    for _ in range(iterations):
        jacobian = np.zeros((errors.size, len(frees)))
        for column, indices in enumerate(touched):
            moved = point.copy()
            moved[column] += 0.01
            changed = with_values(calibration, frees, np.exp(moved).tolist())
            found = log_errors([observations[index] for index in indices], changed)
            for index, part in zip(indices, found, strict=True):
                span = slice(edges[index], edges[index + 1])
                jacobian[span, column] = (part.ravel() - errors[span]) / 0.01
        scale = weight * np.minimum(1.0, robust / np.maximum(np.abs(errors), 1e-12))
        normal = jacobian.T @ (scale[:, None] * jacobian) + np.diag(1 / spread**2)
        slope = jacobian.T @ (scale * errors) + (point - start) / spread**2
        for _attempt in range(6):
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -slope)
            candidate = np.minimum(point + np.clip(step, -0.5, 0.5), top)
            found_errors = errors_at(candidate)
            found_cost = cost_of(found_errors, candidate)
            if found_cost < cost:
                point, errors, damping = candidate, found_errors, damping / 3
                break
            damping *= 4
        else:
            break
        improved, cost = cost - found_cost, found_cost
        if improved < 1e-4 * cost:
            break
    return with_values(calibration, frees, np.exp(point).tolist())
