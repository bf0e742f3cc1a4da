"""`manage.py calibrate`: refit the step-time constants on measured runs and judge them; writes nothing unasked."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting.facts.calibration import CALIBRATION, Calibration
from accounting.scenario import Scenario
from accounting.step_time.fit import Free, Observation, fit, leave_one_out
from accounting.step_time.free import default_free, touches
from accounting.step_time.judge import Judged, judged, with_bands
from accounting.step_time.observed import Measured, observation_of
from accounting.step_time.render import render_rows
from accounting.step_time.report import document, lines_of, plain_table
from planner.embedded.ready import ensure_ready
from planner.errors import PlannerError
from planner.requests import RequestContext, context_for, read_estimate
from planner.validation.learning import measured_steps
from planner.validation.measured_rows import MeasuredRowsError, read_measured_rows

PRECISION = 300.0
"""One over the squared log error a single measured step is trusted to."""
SHARING = 0.85
"""A source of n rows weighs n^(1 - SHARING) rows: large sweeps may not drown single papers."""


class Command(BaseCommand):
    help = "Refit the constants of the step-time model on measured steps; judge them beside the null model."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file", nargs="?", help="JSON Lines: request, expect.step_seconds, source, part (fit or report)"
        )
        parser.add_argument(
            "--stored", action="store_true", help="also the steps that stored validations measured on devices"
        )
        parser.add_argument("--iterations", type=int, default=3, help="0 judges the present constants")
        parser.add_argument(
            "--leave-out", action="store_true", help="refit without each source in turn and judge it on that"
        )
        parser.add_argument("--write", type=Path, help="directory for the modules of the new rows")
        parser.add_argument("--document", type=Path, help="file whose term and score blocks are brought up to date")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = _asked(options)
        ensure_ready()
        context = context_for(None)
        rows += measured_steps() if options["stored"] else []
        if not rows:
            raise CommandError("nothing to fit: give a file of measured steps, or --stored where some are stored")
        fitted, report = (
            _observations([row for row in rows if row["part"] == part], context) for part in ("fit", "report")
        )
        if options["iterations"] and not fitted:
            raise CommandError("no row has the part fit: --iterations 0 only judges")
        items, found = [item for item, _ in fitted], CALIBRATION
        free = default_free(found, items)
        if options["iterations"]:
            found = fit(items, found, free, iterations=options["iterations"], touches=partial(touches, CALIBRATION))
            self.stdout.write(f"{len(free)} constants on {sum(len(names) for _, names in fitted)} measured steps")
        left_out = _left_out(fitted, report, found, free) if options["leave_out"] else {}
        judged_fit = _judge(fitted, found)
        table = lines_of(judged_fit, _judge(report, found), left_out)
        self.stdout.write(plain_table(table))
        if options["document"]:
            text = options["document"].read_text(encoding="utf-8")
            options["document"].write_text(document(text, table, found.version), encoding="utf-8")
        if options["write"]:
            architectures = {slug: row.architecture for slug, row in context.catalog.accelerators.items()}
            for name, source in render_rows(with_bands(found, judged_fit, architectures)).items():
                (options["write"] / f"{name}.py").write_text(source, encoding="utf-8")
            self.stdout.write(f"new rows in {options['write']}; review them and give the set a new version")


def _asked(options: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the file; whatever would fail only after a fit of minutes fails here, all of it at once."""
    faults, rows = [], []
    if options["iterations"] < 0:
        faults.append(f"--iterations is {options['iterations']}: give 0 to judge, 3 to fit")
    if options["write"] and not options["write"].is_dir():
        faults.append(f"--write {options['write']} is no directory: make it first")
    if options["document"] and not options["document"].is_file():
        faults.append(f"--document {options['document']} is no file with a block of terms and scores")
    try:
        rows = read_measured_rows(Path(options["file"])) if options["file"] else []
    except MeasuredRowsError as error:
        faults += error.faults
    if faults:
        raise CommandError("\n".join(faults))
    return rows


def _left_out(
    fitted: list[tuple[Observation, list[str]]],
    report: list[tuple[Observation, list[str]]],
    found: Calibration,
    free: tuple[Free, ...],
) -> dict[str, float]:
    """Each source's mean error on its report rows, with constants refitted without its fit rows."""
    items, groups = [item for item, _ in fitted], [names for _, names in fitted]
    refitted = leave_one_out(items, groups, found, free, touches=partial(touches, CALIBRATION))
    errors = {}
    for source, constants in refitted.items():
        rows = [row for row in _judge([one for one in report if source in one[1]], constants) if row.source == source]
        if rows:
            errors[source] = fmean(abs(row.error) for row in rows)
    return errors


def _observations(rows: list[dict[str, Any]], context: RequestContext) -> list[tuple[Observation, list[str]]]:
    """Measured steps with their sources, those of one recipe and machine together; refused rows are an error.

    A step is given as seconds or as tokens a second and device.
    """
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
        raise CommandError("\n".join(faults))
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
