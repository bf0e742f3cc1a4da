"""Refitting the constants: Gauss-Newton on the logarithm of predicted over measured, robust, with priors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from accounting.facts.calibration import Calibration
from accounting.partition import Partition
from accounting.scenario import Scenario
from accounting.step_time.step import step_seconds
from accounting.units import Floats

_STEP = 0.01
"""Of a logarithm, for derivatives."""
_ATTEMPTS = 6
_STEPS = 12
"""Steps with the slopes of one point: a step costs one evaluation, slopes cost one for each constant."""
_LONGEST = 0.5
"""Longest step of a logarithm."""
_ENOUGH = 1e-4
"""Relative gain below which a fit ends."""
_AT_LIMIT = 1e-6
"""Of a logarithm, below a constant's physical limit."""
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
    """Prior: standard deviation of its logarithm around `centre`."""
    centre: float | None = None
    """None = the value it starts from."""
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
        predicted = step_seconds(item.scenario, item.partition, calibration)
        errors.append(np.nan_to_num(np.log(predicted / item.measured)))
    return errors


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    observations: Sequence[Observation]
    calibration: Calibration
    frees: Sequence[Free]
    robust: float
    touched: list[list[int]]
    """Indices of the observations that each constant moves."""
    centre: Floats
    spread: Floats
    weight: Floats
    edges: NDArray[np.int64]

    def errors_at(self, point: Floats) -> Floats:
        found = log_errors(self.observations, with_values(self.calibration, self.frees, np.exp(point).tolist()))
        return np.concatenate([part.ravel() for part in found])

    def cost(self, errors: Floats, point: Floats) -> float:
        size = np.abs(errors)
        huber = np.where(size <= self.robust, errors**2, 2 * self.robust * size - self.robust**2)
        return float((self.weight * huber).sum() + (((point - self.centre) / self.spread) ** 2).sum())

    def jacobian(self, errors: Floats, point: Floats) -> Floats:
        slopes = np.zeros((errors.size, len(self.frees)))
        for column, indices in enumerate(self.touched):
            moved = point.copy()
            moved[column] += _STEP
            changed = with_values(self.calibration, self.frees, np.exp(moved).tolist())
            found = log_errors([self.observations[index] for index in indices], changed)
            for index, part in zip(indices, found, strict=True):
                span = slice(self.edges[index], self.edges[index + 1])
                slopes[span, column] = (part.ravel() - errors[span]) / _STEP
        return slopes


def fit(
    observations: Sequence[Observation],
    calibration: Calibration,
    frees: Sequence[Free],
    *,
    iterations: int = 12,
    robust: float = 0.1,
    touches: Callable[[Free, Observation], bool] = lambda free, observation: True,
    told: Callable[[int, float, float], None] = lambda iteration, before, after: None,
) -> Calibration:
    """Gauss-Newton on Σ w·ρ(log error)² + Σ (log(x/x0)/spread)², `iterations` times with fresh slopes.

    x0 is the prior's centre. ρ weighs rows beyond `robust` like Huber's loss. `touches` says which observations a
    constant can move: the others are not evaluated again for its derivative. `told` hears of each iteration's sum
    before and after it.
    """
    problem = _problem(observations, calibration, frees, robust, touches)
    top = np.log([free.most for free in frees])
    point = np.minimum(np.log([value_of(calibration, free) for free in frees]), top)
    errors = problem.errors_at(point)
    for iteration in range(iterations):
        cost = problem.cost(errors, point)
        point = _descended(problem, problem.jacobian(errors, point), errors, point, top, _STEPS)
        errors = problem.errors_at(point)
        told(iteration + 1, cost, problem.cost(errors, point))
        if cost - problem.cost(errors, point) < _ENOUGH * cost:
            break
    return with_values(calibration, frees, np.exp(point).tolist())


def leave_one_out(
    observations: Sequence[Observation],
    groups: Sequence[Sequence[str]],
    calibration: Calibration,
    frees: Sequence[Free],
    *,
    iterations: int = 4,
    robust: float = 0.1,
    touches: Callable[[Free, Observation], bool] = lambda free, observation: True,
) -> Iterator[tuple[str, Calibration]]:
    """The constants refitted without each group in turn, from a set fitted on all; `groups` names each row's group.

    One pair at a time, for each takes seconds; rows whose group is "" are never left out. Gauss-Newton with the slopes
    at `calibration` kept: a group's rows lose their weight, the priors their pull do not.
    """
    start = np.log([value_of(calibration, free) for free in frees])
    problem = _problem(observations, calibration, frees, robust, touches)
    errors = problem.errors_at(start)
    slopes, top = problem.jacobian(errors, start), np.log([free.most for free in frees])
    names = np.asarray([name for group in groups for name in group])
    for name in filter(None, dict.fromkeys(names.tolist())):
        without = replace(problem, weight=np.where(names == name, 0.0, problem.weight))
        point = _descended(without, slopes, errors, start, top, iterations)
        yield name, with_values(calibration, frees, np.exp(point).tolist())


def _descended(
    problem: _Problem, slopes: Floats, errors: Floats, start: Floats, top: Floats, iterations: int
) -> Floats:
    """Steps downhill with fixed slopes, halved while they do not help, until none does. [logarithms]"""
    point, cost = start, problem.cost(errors, start)
    for _ in range(iterations):
        step = np.clip(_descent(problem, slopes, errors, point, top), -_LONGEST, _LONGEST)
        for halving in range(_ATTEMPTS):
            candidate = np.minimum(point + step / 2**halving, top)
            tried = problem.errors_at(candidate)
            if problem.cost(tried, candidate) < cost * (1 - _ENOUGH):
                break
        else:
            return point
        point, errors, cost = candidate, tried, problem.cost(tried, candidate)
    return point


def _descent(problem: _Problem, slopes: Floats, errors: Floats, point: Floats, top: Floats) -> Floats:
    """Gauss-Newton step in which constants at their physical limit stay there. [logarithms]"""
    scale = problem.weight * np.minimum(1.0, problem.robust / np.maximum(np.abs(errors), 1e-12))
    normal = slopes.T @ (scale[:, None] * slopes) + np.diag(1 / problem.spread**2)
    slope = slopes.T @ (scale * errors) + (point - problem.centre) / problem.spread**2
    moving = (point < top - _AT_LIMIT) | (slope > 0)
    step = np.zeros_like(point)
    step[moving] = np.linalg.solve(normal[np.ix_(moving, moving)], -slope[moving])
    return step


def _problem(
    observations: Sequence[Observation],
    calibration: Calibration,
    frees: Sequence[Free],
    robust: float,
    touches: Callable[[Free, Observation], bool],
) -> _Problem:
    centres = [value_of(calibration, free) if free.centre is None else free.centre for free in frees]
    return _Problem(
        observations=observations,
        calibration=calibration,
        frees=frees,
        robust=robust,
        touched=[[index for index, item in enumerate(observations) if touches(free, item)] for free in frees],
        centre=np.log(centres),
        spread=np.asarray([free.spread for free in frees]),
        weight=np.concatenate([item.weight.ravel() for item in observations]),
        edges=np.cumsum([0, *(item.measured.size for item in observations)]),
    )
