"""Predicted beside measured, by line of the ledger where the measurement allows it; pure, for every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from accounting.estimate import estimate
from accounting.memory.ranks import states_by_rank
from accounting.scenario import Scenario
from accounting.vocabulary import Bucket, Phase

PHASE_TOLERANCE = 0.03
"""Phases of a step agree within so much."""
SECONDS_TOLERANCE = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing predicted and measured."""

    line: str
    predicted: float | None
    measured: float | None
    tolerance: float
    """Largest relative error that still agrees; 0 = equal to the byte."""
    unit: str = "byte"
    rank: int | None = None

    @property
    def error(self) -> float | None:
        """(predicted - measured) / measured; None where either is unknown or nothing was measured."""
        if self.predicted is None or self.measured is None or self.measured == 0:
            return None
        return self.predicted / self.measured - 1

    @property
    def agrees(self) -> bool | None:
        if self.predicted is None or self.measured is None:
            return None
        return abs(self.predicted - self.measured) <= self.tolerance * abs(self.measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    lines: tuple[Line, ...]
    """Those that were both predicted and measured."""
    predicted: Mapping[str, Any]
    headline: Line | None
    """The line the statistics count."""
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool | None:
        """Whether every line does; None where there is nothing to compare."""
        judged = [line.agrees for line in self.lines if line.agrees is not None]
        return all(judged) if judged else None

    def outliers(self) -> list[dict[str, Any]]:
        """Lines that disagree, the largest difference first, each in words."""
        found = [line for line in self.lines if line.agrees is False]
        found.sort(key=lambda line: -abs((line.predicted or 0) - (line.measured or 0)))
        return [{"line": line.line, "rank": line.rank, "why": _why(line)} for line in found]

    def answer(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "agrees": self.agrees,
            "lines": [{**asdict(line), "error": line.error, "agrees": line.agrees} for line in self.lines],
            "outliers": self.outliers(),
            "notes": list(self.notes),
        }


def _why(line: Line) -> str:
    difference = (line.predicted or 0) - (line.measured or 0)
    word = "above" if difference > 0 else "below"
    share = "" if line.error is None else f" ({line.error:+.1%})"
    place = "" if line.rank is None else f" on rank {line.rank}"
    return f"{line.line}{place}: predicted {abs(difference):,.6g} {line.unit}s {word} the measured{share}"


def compare_shapes(scenario: Scenario, measured: Mapping[str, Any]) -> Comparison:
    """Counts to the unit and the multiset of shapes; a shape that one side lacks is a line of its own."""
    inventory = scenario.recipe.inventory
    ours: Counter[tuple[int, ...]] = Counter()
    for tensor, times in inventory.all_tensors():
        ours[tensor.shape] += tensor.count * times
    theirs = Counter({tuple(shape): count for shape, count in measured["shapes"]})
    lines = [
        _exact("parameters", inventory.parameters, measured["parameters"], "parameter"),
        _exact("trainable_parameters", inventory.trainable_parameters, measured["trainable_parameters"], "parameter"),
    ]
    # Classes stack the experts of a block into one tensor where our inventory counts them one by one.
    different = sorted(set(ours) | set(theirs), key=str)
    lines += [
        _exact(f"shape {list(shape)}", ours[shape], theirs[shape], "tensor")
        for shape in different
        if ours[shape] != theirs[shape] and not (_stacked(shape, ours, theirs))
    ]
    predicted = {"parameters": inventory.parameters, "tensors": sum(ours.values())}
    return Comparison(lines=tuple(lines), predicted=predicted, headline=None)


def _stacked(shape: tuple[int, ...], ours: Counter[tuple[int, ...]], theirs: Counter[tuple[int, ...]]) -> bool:
    """True where the one side holds the same elements as the other, experts stacked."""
    single, stacked = (shape, None) if shape in ours else (shape[1:], shape)
    for found in [stacked] if stacked else [other for other in theirs if other[1:] == single]:
        if found is not None and theirs[found] * found[0] == ours[single]:
            return True
    return False


def _exact(line: str, predicted: float, measured: float, unit: str, rank: int | None = None) -> Line:
    return Line(line=line, predicted=predicted, measured=measured, tolerance=0.0, unit=unit, rank=rank)


def compare_states(scenario: Scenario, measured: Mapping[str, Any]) -> Comparison:
    """Parameters, gradients and optimizer of every rank, to the byte; host scalars belong to the optimizer."""
    held = states_by_rank(scenario)
    ranks = measured["ranks"]
    size = len(held.parameters)
    columns = {
        "parameters": held.parameters,
        "gradients": held.gradients,
        "optimizer": held.optimizer_states + held.master_weights + held.host,
    }
    lines = [
        _exact(f"states.{name}", int(columns[name][rank % size]), found[name], "byte", rank)
        for rank, found in enumerate(ranks)
        for name in columns
    ]
    predicted = {
        "ranks": [{name: int(values[rank % size]) for name, values in columns.items()} for rank in range(len(ranks))]
    }
    fullest = max(range(len(ranks)), key=lambda rank: sum(ranks[rank].values()))
    headline = _exact(
        "states", sum(predicted["ranks"][fullest].values()), sum(ranks[fullest].values()), "byte", fullest
    )
    return Comparison(lines=tuple(lines), predicted=predicted, headline=headline)


CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "states": ("Parameter", "Sharded Param", "Gradient", "Sharded Grad", "Optstate", "OptState"),
}
STATE_BUCKETS = (Bucket.PARAMETERS, Bucket.GRADIENTS, Bucket.MASTER_WEIGHTS, Bucket.OPTIMIZER_STATES)
OUTSIDE_TRACKING = ("framework", "reduce_buckets")
"""Words of lines a tracker of tensors cannot see: the driver's and the library's own workspaces."""


def compare_phases(scenario: Scenario, measured: Mapping[str, Any]) -> Comparison:
    """Peaks of forward, backward and step against the tracker's, less what no tracker of tensors can see."""
    answer = estimate(scenario).row(0)["memory"]
    unseen = _unseen(answer)
    phases = measured["phases"]
    lines = [
        Line(
            line=f"phase.{phase}",
            predicted=answer["by_phase"][phase] - unseen[phase],
            measured=phases[phase]["Total"],
            tolerance=PHASE_TOLERANCE,
        )
        for phase in (Phase.FORWARD.value, Phase.BACKWARD.value, Phase.OPTIMIZER_STEP.value)
        if phase in phases
    ]
    peak = Line(
        line="peak",
        predicted=max(line.predicted or 0 for line in lines),
        measured=max(line.measured or 0 for line in lines),
        tolerance=PHASE_TOLERANCE,
    )
    at_peak = max(phases, key=lambda phase: phases[phase]["Total"])
    held = [line for line in answer["lines"] if line["device"]]
    predicted = {
        "by_phase": {line.line.removeprefix("phase."): line.predicted for line in lines},
        "by_line": {line["formula"]: line["bytes_by_phase"][at_peak] for line in held},
        "left_out_bytes": unseen,
    }
    notes = (f"lines and categories are those of the measured peak, in {at_peak.replace('_', ' ')}",)
    return Comparison(lines=(*lines, peak), predicted=predicted, headline=peak, notes=notes)


def _unseen(memory: Mapping[str, Any]) -> dict[str, int]:
    found = dict.fromkeys((phase.value for phase in Phase), 0)
    for line in memory["lines"]:
        if line["device"] and any(word in f"{line['bucket']} {line['formula']}" for word in OUTSIDE_TRACKING):
            for phase in found:
                found[phase] += line["bytes_by_phase"][phase]
    return found


def compare_device(scenario: Scenario, measured: Mapping[str, Any]) -> Comparison:
    """Levels of the device (allocated, reserved, driver), phases and seconds, whichever were measured."""
    found = estimate(scenario).row(0)
    memory, time = found["memory"], found["time"]
    low, high = memory["device_bytes_band"]
    lines = [
        Line(line=name, predicted=memory[name], measured=measured[name], tolerance=PHASE_TOLERANCE)
        for name in ("peak_allocated_bytes", "peak_reserved_bytes", "device_bytes")
        if measured.get(name) is not None
    ]
    lines += [
        Line(line=f"phase.{phase}", predicted=memory["by_phase"][phase], measured=amount, tolerance=PHASE_TOLERANCE)
        for phase, amount in (measured.get("by_phase") or {}).items()
    ]
    seconds = None if time is None else time["step_seconds"]
    if measured.get("step_seconds") is not None:
        lines.append(
            Line(
                line="step_seconds",
                predicted=seconds,
                measured=measured["step_seconds"],
                tolerance=SECONDS_TOLERANCE,
                unit="second",
            )
        )
    notes = [_inside(low, high, measured["device_bytes"])] if measured.get("device_bytes") is not None else []
    if measured.get("out_of_memory") is not None:
        notes.append(_against_the_limit(memory))
    predicted = {
        name: memory[name]
        for name in ("peak_allocated_bytes", "peak_reserved_bytes", "device_bytes", "by_phase", "fits")
    } | {"step_seconds": seconds, "device_bytes_band": [low, high]}
    sizes = [line for line in lines if line.unit == "byte"]
    return Comparison(lines=tuple(lines), predicted=predicted, headline=sizes[0] if sizes else None, notes=tuple(notes))


def _inside(low: int, high: int, measured: int) -> str:
    word = "inside" if low <= measured <= high else "outside"
    return f"the driver's reading is {word} the predicted range of {low:,} to {high:,} bytes"


def _against_the_limit(memory: Mapping[str, Any]) -> str:
    said = {True: "that it fits: they disagree", False: "that it does not fit: they agree", None: "nothing of it"}
    return f"the device ran out of memory; the prediction said {said[memory['fits']]}"


COMPARISONS: Mapping[str, Callable[[Scenario, Mapping[str, Any]], Comparison]] = {
    "shapes": compare_shapes,
    "cpu": compare_states,
    "dry-run": compare_phases,
    "gpu": compare_device,
    "import": compare_device,
}


def quantiles(errors: list[float]) -> dict[str, float | int]:
    """Distribution of relative errors: how many, mean absolute, median, 5th and 95th percentile, largest."""
    values = np.asarray(errors, dtype=np.float64)
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return {
        "runs": len(values),
        "mean_absolute": float(np.abs(values).mean()),
        "median": float(middle),
        "percentile_5": float(low),
        "percentile_95": float(high),
        "largest": float(values[np.abs(values).argmax()]),
    }
