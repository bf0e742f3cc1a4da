"""`manage.py plan`: the cheapest way to run a job, searched in this process and stored like any other plan."""

from __future__ import annotations

import json
import re
import shutil
import sys
from argparse import ArgumentParser
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from planner.documents import read_document, write_document
from planner.embedded.ready import ensure_ready
from planner.errors import PlannerError
from planner.plans.documents import plan_text
from planner.plans.exports import plan_export
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.running import plan_execute
from planner.plans.services import plan_create
from planner.teams.services import team_embedded
from planner.text import render_plan
from planner.web.choices import accelerator_names

FOUND, INFEASIBLE, BAD_REQUEST = 0, 1, 2
SUFFIXES = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def number(text: str) -> int | float:
    """15e9, 15B, 15_000_000_000 and 0.05: a whole number where it is one."""
    match = re.fullmatch(r"(-?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)([kKmMbBtT]?)", text)
    if match is None:
        raise ValueError(text)
    value = Decimal(match[1].replace("_", "")) * SUFFIXES.get(match[2].lower(), 1)
    return int(value) if value == value.to_integral_value() else float(value)


FLAGS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("--model", "model", {"help": "catalog slug"}),
    ("--tokens", "workload/tokens", {"type": number, "help": "tokens to train on: 15e9, 15B"}),
    ("--sequence-length", "workload/sequence_length", {"type": number}),
    ("--global-batch-tokens", "workload/global_batch_tokens", {"type": number, "help": "tokens in one optimizer step"}),
    ("--accelerator", "hardware/accelerators", {"action": "append", "help": "catalog slug; repeat for more"}),
    ("--max-gpus", "hardware/max_count", {"type": number, "help": "at most so many devices"}),
    ("--provider", "hardware/providers", {"action": "append"}),
    ("--region", "hardware/regions", {"action": "append"}),
    ("--pricing", "hardware/pricing", {"action": "append", "help": "on-demand, spot or reserved; repeat for more"}),
    ("--optimizer", "optimizers", {"action": "append"}),
    ("--precision", "precisions", {"action": "append"}),
    ("--engine", "engines", {"action": "append"}),
    ("--deadline-hours", "constraints/deadline_hours", {"type": number}),
    ("--budget-usd", "constraints/budget_usd", {"type": number}),
    ("--memory-headroom", "constraints/memory_headroom", {"type": number, "help": "share of the card to keep free"}),
    ("--objective", "objective", {"help": "cost, time or devices"}),
    ("--options", "options", {"type": number, "help": "how many options to list"}),
)


class Command(BaseCommand):
    help = "The cheapest way to run a training job, from a request file or from flags."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", help="a plan request as JSON; - reads standard input")
        for flag, pointer, options in FLAGS:
            parser.add_argument(flag, dest=pointer, **options)
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print the API's answer instead of a table")
        form.add_argument("--jsonl", action="store_true", help="one request a line in, one answer a line out")
        form.add_argument("--export", nargs=2, metavar=("RANK", "FORMAT"), help="print a launch file: 1 slurm")

    def handle(self, *args: Any, **options: Any) -> None:
        given = {pointer: options[pointer] for _, pointer, _ in FLAGS if options[pointer] is not None}
        if bool(given) == bool(options["file"]):
            raise CommandError("give a request file (or -), or flags such as --model", returncode=BAD_REQUEST)
        ensure_ready()
        if options["jsonl"]:
            self._lines(options["file"])
            return
        try:
            run = self._plan(_from_flags(given) if given else read_document(_read(options["file"])))
        except PlannerError as error:
            self._complain(error)
            sys.exit(BAD_REQUEST)
        if options["export"] and run.status == PlanStatus.SUCCEEDED:
            self._export(run, *options["export"])
        else:
            self._show(run, as_json=options["json"])
        sys.exit(FOUND if run.status == PlanStatus.SUCCEEDED else INFEASIBLE)

    def _plan(self, payload: object) -> PlanRun:
        run, _ = plan_create(team=team_embedded(), user=None, payload=payload, enqueue=False)
        plan_execute(plan_id=run.pk, watcher=self._progress)
        run.refresh_from_db()
        return run

    def _progress(self, done: int, total: int) -> None:
        if self.stderr.isatty():
            end = "\n" if done >= total else ""
            self.stderr.write(f"\r{done:,} of {total:,} candidates", ending=end)

    def _show(self, run: PlanRun, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(plan_text(run))
            return
        if not run.answer:
            raise CommandError(f"the plan ended as {run.status}: {run.error_detail}", returncode=INFEASIBLE)
        names = accelerator_names()
        width = shutil.get_terminal_size((100, 24)).columns if self.stdout.isatty() else 100
        self.stdout.write(render_plan(json.loads(plan_text(run)), json.loads(run.request), names, width))

    def _export(self, run: PlanRun, rank: str, key: str) -> None:
        if not rank.isdecimal():
            raise CommandError(
                f"--export takes an option's rank first, as in 1 slurm, not {rank}", returncode=BAD_REQUEST
            )
        try:
            self.stdout.write(plan_export(run=run, rank=int(rank), key=key).text, ending="")
        except PlannerError as error:
            self._complain(error)
            sys.exit(BAD_REQUEST)

    def _complain(self, error: PlannerError) -> None:
        if not error.faults:
            self.stderr.write(f"error: {error.detail} ({error.code})")
        for fault in error.faults:
            self.stderr.write(f"error: {fault.pointer}: {fault.detail} ({fault.code})")

    def _lines(self, file: str) -> None:
        """A bad line answers with its error, and the rest go on."""
        for line in sys.stdin.buffer if file == "-" else _read(file).splitlines():
            if not line.strip():
                continue
            try:
                answer = plan_text(self._plan(read_document(line)))
            except PlannerError as error:
                answer = write_document({"error": _error(error)})
            self.stdout.write(answer)
            self.stdout.flush()


def _error(error: PlannerError) -> dict[str, Any]:
    faults = [{"pointer": fault.pointer, "code": fault.code, "detail": fault.detail} for fault in error.faults]
    return {"status": error.http_status, "code": error.code, "detail": error.detail, "errors": faults}


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}", returncode=BAD_REQUEST) from None


def _from_flags(given: dict[str, Any]) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    for pointer, value in given.items():
        *parents, name = pointer.split("/")
        place = payload
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return payload
