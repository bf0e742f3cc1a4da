"""`manage.py validate`: measure a configuration, or a shipped row of them, in this process; stored like any other."""

from __future__ import annotations

import csv
import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from planner.documents import read_document
from planner.embedded.ready import ensure_ready
from planner.errors import PlannerError
from planner.teams.services import team_embedded
from planner.validation.calibration import calibration_use
from planner.validation.documents import validation_text
from planner.validation.learning import calibration_learn
from planner.validation.models import CalibrationSet, ValidationRun, ValidationStatus
from planner.validation.running import validation_execute
from planner.validation.selectors import statistics_of
from planner.validation.services import validation_create
from planner.validation.shipped import CASES

AGREES, DISAGREES, BAD_REQUEST = 0, 1, 2
TRUTH_COLUMNS = ("id", "request", "quantity", "expected", "predicted", "unit", "basis", "source")


class Command(BaseCommand):
    help = "Measure configurations for real and compare them with their predictions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("file", nargs="?", help="a validation request as JSON; - reads standard input")
        what.add_argument("--case", choices=sorted(CASES), help="a shipped row of validations")
        what.add_argument("--list", action="store_true", help="the shipped rows")
        what.add_argument("--statistics", action="store_true", help="errors by kind, engine, accelerator and version")
        what.add_argument("--calibrate", action="store_true", help="learn bands from the stored device measurements")
        what.add_argument(
            "--use", metavar="VERSION", help="put a calibration set in force; `none` for the shipped bands"
        )
        parser.add_argument("--json", action="store_true", help="print whole answers, one a line")
        parser.add_argument("--truth", type=Path, help="append what was measured as rows of a CSV file")
        parser.add_argument("--first", type=int, help="only so many of a case's rows")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["list"]:
            for name, (title, rows) in CASES.items():
                self.stdout.write(f"{name:12} {len(list(rows())):3} {title}")
            return
        ensure_ready()
        if options["statistics"] or options["calibrate"] or options["use"]:
            self._learnt(options)
            return
        try:
            runs = [self._run(payload, options) for payload in self._payloads(options)]
        except PlannerError as error:
            self._complain(error)
            sys.exit(BAD_REQUEST)
        if options["truth"]:
            write_truth(options["truth"], runs)
        agreed = [run.status == ValidationStatus.SUCCEEDED and run.agrees is not False for run in runs]
        if len(runs) > 1:
            self.stdout.write(f"{sum(agreed)} of {len(runs)} agree")
        sys.exit(AGREES if all(agreed) else DISAGREES)

    def _payloads(self, options: dict[str, Any]) -> list[object]:
        if options["case"]:
            return list(CASES[options["case"]][1]())[: options["first"]]
        file = options["file"]
        try:
            raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}", returncode=BAD_REQUEST) from None
        return [read_document(raw)]

    def _run(self, payload: object, options: dict[str, Any]) -> ValidationRun:
        run, _ = validation_create(team=team_embedded(), user=None, payload=payload, enqueue=False)
        validation_execute(validation_id=run.pk)
        run.refresh_from_db()
        self.stdout.write(validation_text(run) if options["json"] else line_of(run))
        for outlier in (
            json.loads(run.answer)["comparison"]["outliers"][:8] if run.answer and not options["json"] else ()
        ):
            self.stdout.write(f"    {outlier['why']}")
        self.stdout.flush()
        return run

    def _learnt(self, options: dict[str, Any]) -> None:
        if options["statistics"]:
            for row in statistics_of(ValidationRun.objects.all()):
                self.stdout.write(json.dumps(row))
            return
        if options["use"]:
            self._use(options["use"])
            return
        found = calibration_learn()
        if found is None:
            self.stdout.write("too few measurements of devices: the shipped bands stand")
            return
        self.stdout.write(f"{found}, from {found.measurements} measurements")
        for row in json.loads(found.rows):
            self.stdout.write(json.dumps({name: value for name, value in row.items() if name != "points"}))

    def _use(self, text: str) -> None:
        try:
            found = calibration_use(version=None if text == "none" else int(text))
        except (ValueError, CalibrationSet.DoesNotExist):
            known = ", ".join(str(version) for version in CalibrationSet.objects.values_list("version", flat=True))
            raise CommandError(f"no calibration set {text!r}; there are: {known or 'none yet'}") from None
        self.stdout.write(str(found) if found is not None else "no calibration set in force: the shipped bands stand")

    def _complain(self, error: PlannerError) -> None:
        for fault in error.faults:
            self.stderr.write(f"error: {fault.pointer}: {fault.detail} ({fault.code})")
        if not error.faults:
            self.stderr.write(f"error: {error.detail} ({error.code})")


def line_of(run: ValidationRun) -> str:
    """One validation in a line for people."""
    asked = json.loads(run.request)["request"]
    what = (
        f"{run.kind:11} {_name(asked.get('optimizer', 'adamw')):18} {_name(asked.get('precision', 'bf16-mixed')):10} "
        f"{run.sharding_engine}-{asked.get('sharding', {}).get('zero_stage', '')} ×{asked['hardware'].get('count', 1)}"
    )
    if run.status != ValidationStatus.SUCCEEDED:
        return f"{what}: {run.status}: {run.error_code}: {run.error_detail}"
    if run.kind == "convergence":
        return f"{what}: {json.loads(run.answer)['comparison']['notes'][0]}"
    word = {True: "agrees", False: "DISAGREES", None: "nothing to compare"}[run.agrees]
    if run.predicted_bytes is None or not run.measured_bytes:
        return f"{what}: {word}"
    error = run.predicted_bytes / run.measured_bytes - 1
    return f"{what}: predicted {run.predicted_bytes:,} B, measured {run.measured_bytes:,} B ({error:+.2%}): {word}"


def _name(value: Any) -> str:
    return value if isinstance(value, str) else str(value.get("name", "own"))


def write_truth(path: Path, runs: list[ValidationRun]) -> None:
    """One row a line that was measured, with the request that reproduces it; a new file gets its header."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        if new:
            rows.writerow(TRUTH_COLUMNS)
        for run in runs:
            answer = json.loads(run.answer) if run.answer else None
            if answer is None:
                continue
            environment = answer["environment"]
            source = " ".join(f"{name} {value}" for name, value in environment.items() if name in {"torch", "device"})
            text = json.dumps(answer["measured_request"], separators=(",", ":"))
            for line in answer["comparison"]["lines"]:
                place = "" if line["rank"] is None else f"@{line['rank']}"
                rows.writerow(
                    [
                        f"{run.kind}-{run.pk}",
                        text,
                        f"{line['line']}{place}",
                        line["measured"],
                        line["predicted"],
                        line["unit"],
                        "measured",
                        source,
                    ]
                )
