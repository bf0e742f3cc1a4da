"""Measured steps as observations of the step-time model, judged, refitted and left out source by source."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from accounting.facts.calibration import Calibration
from accounting.scenario import Scenario
from accounting.step_time.fit import Free, Observation, fit, leave_one_out
from accounting.step_time.free import touches
from accounting.step_time.judge import Judged, judged
from accounting.step_time.observed import Measured, observation_of
from planner.errors import PlannerError
from planner.requests import RequestContext, read_estimate
from planner.validation.measured_rows import MeasuredRowsError

PRECISION = 300.0
"""One over the squared log error a single measured step is trusted to."""
SHARING = 0.85
"""A source of n rows weighs n^(1 - SHARING) rows: large sweeps may not drown single papers."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Measured steps of one part: observations, and the source of each of their rows."""

    items: list[Observation]
    sources: list[list[str]]

    @property
    def count(self) -> int:
        """Measured steps."""
        return sum(map(len, self.sources))

    def judged(self, calibration: Calibration) -> list[Judged]:
        """Every step beside what these constants say of it."""
        pairs = zip(self.items, self.sources, strict=True)
        return [row for item, names in pairs for row in judged(item, names, calibration)]

    def of(self, source: str) -> Steps:
        """The observations that hold steps of one source."""
        pairs = [pair for pair in zip(self.items, self.sources, strict=True) if source in pair[1]]
        return Steps([item for item, _ in pairs], [names for _, names in pairs])


def steps_of(rows: Iterable[Mapping[str, Any]], context: RequestContext) -> Steps:
    """Measured steps, those of one recipe and machine together.

    A step is given as seconds or as tokens a second and device. Raises MeasuredRowsError where requests are refused.
    """
    rows = list(rows)
    sizes = Counter(row["source"] for row in rows)
    groups: dict[str, list[tuple[Measured, str]]] = defaultdict(list)
    faults = []
    for row in rows:
        try:
            scenario = read_estimate(row["request"], context)
        except PlannerError as error:
            faults.append(f"{row.get('id')}: {error}")
            continue
        weight = PRECISION * sizes[row["source"]] ** -SHARING
        groups[_alike(row["request"])].append((Measured(scenario, _seconds(row, scenario), weight), row["source"]))
    if faults:
        raise MeasuredRowsError(faults)
    found = groups.values()
    return Steps(
        [observation_of([one for one, _ in group]) for group in found], [[name for _, name in group] for group in found]
    )


def _seconds(row: Mapping[str, Any], scenario: Scenario) -> float:
    expected = row["expect"]
    if "step_seconds" in expected:
        return float(expected["step_seconds"])
    rate = float(expected["tokens_per_second_per_device"])
    return float(scenario.layout.tokens_per_step[0, 0] / (rate * scenario.layout.count[0, 0]))


def _alike(request: dict[str, Any]) -> str:
    """What two requests must share to be columns of one scenario: everything but degrees, batch and count."""
    kept = {name: value for name, value in request.items() if name not in {"parallelism", "batch"}}
    kept["hardware"] = {name: value for name, value in request["hardware"].items() if name != "count"}
    batch, degrees = request.get("batch") or {}, request.get("parallelism") or {}
    numbers = {"sequence_length", "micro_batch_size", "global_batch_size"}
    kept["batch"] = {name: value for name, value in batch.items() if name not in numbers}
    kept["layout"] = {name: value for name, value in degrees.items() if isinstance(value, str | list | dict)}
    kept["virtual"] = (degrees.get("vpp") or 1) > 1
    return json.dumps(kept, sort_keys=True)


def refitted(
    fitted: Steps, start: Calibration, free: tuple[Free, ...], iterations: int, said: Callable[[str], None]
) -> Calibration:
    """The constants fitted on these steps, from `start`; `said` hears how it goes."""

    def told(iteration: int, before: float, after: float) -> None:
        said(f"iteration {iteration} of at most {iterations}: sum of weighted squares {before:.4g} -> {after:.4g}")

    return fit(fitted.items, start, free, iterations=iterations, touches=partial(touches, start), told=told)


def left_out(
    fitted: Steps, report: Steps, found: Calibration, free: tuple[Free, ...], said: Callable[[str], None]
) -> dict[str, float]:
    """Each source's mean error on its report rows, with constants refitted without its fit rows."""
    judging = {name for names in report.sources for name in names}
    groups = [[name if name in judging else "" for name in names] for names in fitted.sources]
    wanted = {name for names in groups for name in names} - {""}
    errors: dict[str, float] = {}
    for source, constants in leave_one_out(fitted.items, groups, found, free, touches=partial(touches, found)):
        rows = [row for row in report.of(source).judged(constants) if row.source == source]
        errors[source] = fmean(abs(row.error) for row in rows)
        said(f"without {source} ({len(errors)} of {len(wanted)}): {errors[source]:.1%} on its {len(rows)} report rows")
    return errors
