"""`manage.py calibrate`: refit the step-time constants on measured runs and judge them; writes nothing unasked."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting.facts.calibration import CALIBRATION, Calibration
from accounting.step_time.free import default_free
from accounting.step_time.judge import Judged, with_bands
from accounting.step_time.render import render_rows
from accounting.step_time.report import document, lines_of, plain_table, summary
from accounting.step_time.versions import inherited, moved, moved_table, next_version, stamped
from planner.embedded.ready import ensure_ready
from planner.requests import RequestContext, context_for
from planner.validation.learning import measured_steps
from planner.validation.measured_rows import PUBLISHED, MeasuredRowsError, read_measured_rows
from planner.validation.refit import Steps, left_out, refitted, steps_of


class Command(BaseCommand):
    help = (
        "Refit the constants of the step-time model on measured steps; judge them beside the null model and beside the "
        "constants in force. Minutes for a refit, which tells on stderr how it goes."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file",
            nargs="?",
            type=Path,
            help="JSON Lines: request, expect.step_seconds, source, part (fit or report); "
            "left out: the published steps that the shipped constants were fitted on",
        )
        parser.add_argument(
            "--stored", action="store_true", help="also the steps that stored validations measured on devices"
        )
        parser.add_argument("--iterations", type=int, default=3, help="0 judges the present constants")
        parser.add_argument(
            "--leave-out", action="store_true", help="refit without each source in turn and judge it on that"
        )
        parser.add_argument(
            "--write", type=Path, help="directory in which the new set becomes a directory named by its version"
        )
        parser.add_argument(
            "--document", type=Path, help="file whose term and score blocks are brought up to date; with --write or "
            "--iterations 0 only, for it describes constants that exist"
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()

        def said(text: str) -> None:
            self.stderr.write(f"[{time.monotonic() - began:4.0f} s] {text}", style_func=str)
            self.stderr.flush()

        rows = _asked(options)
        ensure_ready()
        context = context_for(None)
        stored = measured_steps() if options["stored"] else []
        if options["stored"]:
            said(f"{len(stored)} steps of stored validations")
        fitted, report = _parts([*rows, *stored], context)
        if not fitted.count and not report.count:
            raise CommandError("no measured step in this file, and none stored was asked for: --stored")
        if options["iterations"] and not fitted.count:
            raise CommandError("no row has the part fit: --iterations 0 only judges")
        said(f"{fitted.count} steps to fit on, {report.count} to judge")
        free = default_free(CALIBRATION, fitted.items)
        found = CALIBRATION
        if options["iterations"]:
            said(f"refitting {len(free)} constants, minutes")
            found = inherited(found, refitted(fitted, found, free, options["iterations"], said))
        apart: dict[str, float] = {}
        if options["leave_out"]:
            said("refitting without each source in turn, seconds each")
            apart = left_out(fitted, report, found, free, said)
        self._answer(options, context, found, (fitted, report), apart)

    def _answer(
        self,
        options: dict[str, Any],
        context: RequestContext,
        found: Calibration,
        parts: tuple[Steps, Steps],
        apart: dict[str, float],
    ) -> None:
        """Print scores and what moved; write what was asked for."""
        fitted, report = (part.judged(found) for part in parts)
        architectures = {slug: row.architecture for slug, row in context.catalog.accelerators.items()}
        today = date.today().isoformat()
        taken = {CALIBRATION.version} | {item.name for item in options["write"].iterdir()} if options["write"] else ()
        changed = with_bands(found, fitted, architectures)
        if options["iterations"] or options["write"]:
            changed = stamped(CALIBRATION, changed, next_version(today, taken or {CALIBRATION.version}), today)
        table = lines_of(fitted, report, apart)
        said = [plain_table(table), *_unpredicted([*fitted, *report])]
        if options["iterations"]:
            before = summary(lines_of(parts[0].judged(CALIBRATION), parts[1].judged(CALIBRATION), {}))
            said.append(f"{CALIBRATION.version}, in force: mean of sources {before[2]} fit, {before[5]} report")
        if options["iterations"] or options["write"]:
            said.append(f"{CALIBRATION.version} -> {changed.version}:\n{moved_table(moved(CALIBRATION, changed))}")
        self.stdout.write("\n\n".join(said))
        if options["document"]:
            text = options["document"].read_text(encoding="utf-8")
            options["document"].write_text(document(text, table, changed.version), encoding="utf-8")
        if options["write"]:
            self._write(options["write"] / changed.version, changed, "\n\n".join(said))

    def _write(self, place: Path, found: Calibration, said: str) -> None:
        """A new directory with the set's modules and what was said of it: nothing that stands is overwritten."""
        place.mkdir()
        for name, source in render_rows(found).items():
            (place / f"{name}.py").write_text(source, encoding="utf-8")
        (place / "scores.txt").write_text(said + "\n", encoding="utf-8")
        self.stdout.write(
            f"\nconstants {found.version} in {place}; {CALIBRATION.version} stays in force until the three modules are "
            "reviewed and moved over those of accounting/facts"
        )


def _asked(options: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the file; whatever would fail only after a fit of minutes fails here, all of it at once."""
    faults, rows = [], []
    if options["iterations"] < 0:
        faults.append(f"--iterations is {options['iterations']}: give 0 to judge, 3 to fit")
    if options["write"] and not options["write"].is_dir():
        faults.append(f"--write {options['write']} is no directory: make it first")
    if options["document"]:
        faults += _document_faults(options)
    try:
        rows = read_measured_rows(options["file"] or PUBLISHED)
    except MeasuredRowsError as error:
        faults += error.faults
    if faults:
        raise CommandError("\n".join(faults))
    return rows


def _document_faults(options: dict[str, Any]) -> list[str]:
    path, faults = options["document"], []
    if not path.is_file():
        faults.append(f"--document {path} is no file with a block of terms and scores")
    else:
        try:
            document(path.read_text(encoding="utf-8"), [], "")
        except ValueError as error:
            faults.append(f"--document {path}: {error}")
    if not options["leave_out"]:
        faults.append("--document shows every source left out of the fit as well: add --leave-out")
    if options["iterations"] > 0 and not options["write"]:
        faults.append("--document would describe constants that are thrown away: add --write, or --iterations 0")
    return faults


def _parts(rows: Sequence[dict[str, Any]], context: RequestContext) -> tuple[Steps, Steps]:
    """The fit and the report part."""
    faults, found = [], []
    for part in ("fit", "report"):
        try:
            found.append(steps_of([row for row in rows if row["part"] == part], context))
        except MeasuredRowsError as error:
            faults += error.faults
    if faults:
        raise CommandError("\n".join(faults))
    return found[0], found[1]


def _unpredicted(rows: Sequence[Judged]) -> list[str]:
    """Steps that the model has no time for: they count as an error of 100 % and teach nothing."""
    missing = Counter(row.source for row in rows if row.error <= -1)
    return [
        f"no prediction for {count} of {source}: a fact of its machine is unknown" for source, count in missing.items()
    ]
