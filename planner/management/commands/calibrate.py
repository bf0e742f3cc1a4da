"""`manage.py calibrate`: refit the step-time constants on measured runs and judge them; writes nothing unasked."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting.facts.calibration import CALIBRATION, Calibration
from accounting.scenario import Scenario
from accounting.step_time.fit import Observation, fit
from accounting.step_time.free import default_free, touches
from accounting.step_time.judge import Judged, judged, scores, with_bands
from accounting.step_time.observed import Measured, observation_of
from accounting.step_time.render import render_rows
from planner.embedded.ready import ensure_ready
from planner.errors import PlannerError
from planner.requests import RequestContext, context_for, read_estimate

PRECISION = 40.0
"""One over the squared log error a single measured step is trusted to."""
SHARING = 0.75
"""A source of n rows weighs n^(1 - SHARING) rows: large sweeps may not drown single papers."""


class Command(BaseCommand):
    help = "Refit the constants of the step-time model on measured steps; judge them beside the null model."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="JSON Lines: request, expect.step_seconds, source, part (fit or report)")
        parser.add_argument("--iterations", type=int, default=8, help="0 judges the present constants")
        parser.add_argument("--leave-out", default="", help="a source to leave out of the fit")
        parser.add_argument("--write", type=Path, help="file for the new rows; printed nowhere else")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            lines = Path(options["file"]).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise CommandError(str(error)) from error
        ensure_ready()
        context = context_for(None)
        rows = [json.loads(line) for line in lines if line.strip()]
        left_out = options["leave_out"]
        fitted = _observations([row for row in rows if row["part"] == "fit" and row["source"] != left_out], context)
        found = CALIBRATION
        if options["iterations"]:
            items = [item for item, _ in fitted]
            free = default_free(found, items)
            found = fit(
                items,
                found,
                free,
                iterations=options["iterations"],
                touches=lambda one, item: touches(CALIBRATION, one, item),
            )
            self.stdout.write(f"{len(free)} constants on {sum(len(names) for _, names in fitted)} measured steps")
        self._say("fit", _judge(fitted, found))
        report = _observations([row for row in rows if row["part"] == "report"], context)
        self._say("report", _judge(report, found))
        if options["write"]:
            architectures = {slug: row.architecture for slug, row in context.catalog.accelerators.items()}
            banded = with_bands(found, _judge(fitted, found), architectures)
            options["write"].write_text(render_rows(banded), encoding="utf-8")
            self.stdout.write(f"new rows in {options['write']}; review them and give the set a new version")

    def _say(self, part: str, rows: list[Judged]) -> None:
        self.stdout.write(f"{part}: source, rows, bias, mean error, null model's")
        for source, score in scores(rows).items():
            null = "-" if score.null_error is None else f"{score.null_error:.1%}"
            self.stdout.write(f"  {source[:46]:46} {score.rows:5} {score.bias:+7.1%} {score.error:7.1%} {null:>7}")


def _observations(rows: list[dict[str, Any]], context: RequestContext) -> list[tuple[Observation, list[str]]]:
    """Measured steps with their sources, those of one recipe and machine together; rows the readers refuse are an error.

    A step is given as seconds or as tokens a second and device.
    """
    sizes = Counter(row["source"] for row in rows)
    groups: dict[str, list[tuple[Measured, str]]] = defaultdict(list)
    for row in rows:
        try:
            scenario = read_estimate(row["request"], context)
        except PlannerError as error:
            raise CommandError(f"{row.get('id')}: {error}") from error
        weight = PRECISION * sizes[row["source"]] ** -SHARING
        groups[_alike(row["request"])].append((Measured(scenario, _seconds(row, scenario), weight), row["source"]))
    return [(observation_of([one for one, _ in group]), [name for _, name in group]) for group in groups.values()]


def _seconds(row: dict[str, Any], scenario: Scenario) -> float:
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


def _judge(observations: list[tuple[Observation, list[str]]], calibration: Calibration) -> list[Judged]:
    return [row for item, names in observations for row in judged(item, names, calibration)]
