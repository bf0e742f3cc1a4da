"""`manage.py estimate`: what an exact configuration needs, from a file or standard input; nothing is stored."""

from __future__ import annotations

import sys
import traceback
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting.batch import answers
from planner.documents import read_document, write_document
from planner.embedded.ready import ensure_ready
from planner.errors import Fault, InvalidRequest, PlannerError
from planner.requests import RequestContext, context_for, read_estimate, read_maximum
from planner.requests.estimate import MAXIMISE
from planner.search.maximum import maximum_answer
from planner.text import render_estimate

INTERNAL_ERROR, BAD_REQUEST = 1, 2
INTERNAL = {
    "type": "urn:shardplan:problem:internal_error",
    "title": "A fault of ours",
    "status": 500,
    "detail": "the estimate stopped on a fault of ours; the command's error output has it",
    "errors": [],
}


class Command(BaseCommand):
    help = "Memory, time and cost of one configuration, or of one a line."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="an estimate request as JSON; - reads standard input")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--jsonl", action="store_true", help="one request a line in, one answer a line out, in order")
        form.add_argument("--table", action="store_true", help="print a table for people instead of JSON")
        parser.add_argument("--max", choices=MAXIMISE, help="the largest value that fits, with its estimate")

    def handle(self, *args: Any, **options: Any) -> None:
        content = _read(options["file"])
        ensure_ready()
        context = context_for(None)
        if options["jsonl"]:
            self._lines(content, context, options["max"])
            return
        try:
            request = read_document(content)
            answer = _answer(request, context, options["max"])
        except PlannerError as error:
            for fault in error.faults:
                self.stderr.write(f"error: {fault.pointer}: {fault.detail} ({fault.code})")
            sys.exit(BAD_REQUEST)
        self.stdout.write(_table(answer, request, context) if options["table"] else write_document(answer))

    def _lines(self, content: bytes, context: RequestContext, maximise: str | None) -> None:
        """One answer a line, in order. A bad line answers with its problem, and the rest go on.

        Nor does a fault of ours in one line take the others with it; it is told on stderr, and the exit code is 1.
        """
        broken = False
        for line in content.splitlines():
            if not line.strip():
                continue
            try:
                answer = write_document(_answer(read_document(line), context, maximise))
            except PlannerError as error:
                answer = write_document({"error": error_document(error)})
            except Exception:
                broken = True
                self.stderr.write(traceback.format_exc())
                answer = write_document({"error": INTERNAL})
            self.stdout.write(answer)
        if broken:
            sys.exit(INTERNAL_ERROR)


def error_document(error: PlannerError) -> dict[str, Any]:
    """The problem details the API would give."""
    return {
        "type": f"urn:shardplan:problem:{error.code}",
        "title": error.title,
        "status": error.http_status,
        "detail": error.detail,
        "errors": [{"pointer": fault.pointer, "code": fault.code, "detail": fault.detail} for fault in error.faults],
    }


def _answer(request: object, context: RequestContext, maximise: str | None) -> dict[str, Any]:
    if maximise is None:
        return answers([read_estimate(request, context)])[0]
    if not isinstance(request, dict):
        raise InvalidRequest([Fault("", "wrong_type", "the request is not an object")])
    return maximum_answer(*read_maximum({**request, "maximise": maximise}, context))


def _table(answer: dict[str, Any], request: object, context: RequestContext) -> str:
    names = {slug: row.name for slug, row in context.catalog.accelerators.items()}
    shown = answer["estimate"] if "maximise" in answer else answer
    asked = request if isinstance(request, dict) else {}
    text = render_estimate(shown, asked, names)
    if "maximise" not in answer:
        return text
    value = "none fits" if answer["value"] is None else f"{answer['value']:,}"
    return f"Largest {answer['maximise']}: {value}\n\n{text}"


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}", returncode=BAD_REQUEST) from None
