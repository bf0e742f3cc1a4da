"""`/estimates/bulk/`: many configurations in one request, each answered for itself: one bad one spoils no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from accounting.batch import answers
from accounting.scenario import Scenario
from planner.api.answers import ref
from planner.api.base import ApiView, StrictJSONParser
from planner.api.problems import problem_document
from planner.api.schema import JSON
from planner.documents import MAX_BODY_BYTES, read_document, write_document
from planner.errors import Fault, InvalidRequest, PlannerError, TooLarge
from planner.ops.metrics import count_estimate
from planner.requests import context_for, read_estimate
from planner.requests.context import RequestContext

LINES = "application/jsonl"
LINE_TYPES = (LINES, "application/x-ndjson", "application/json-lines")


class JsonLines(list[bytes]):
    """The lines of a body, each still to be read on its own."""


class _LinesParser(BaseParser):
    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        raw = stream.read()
        if len(raw) > MAX_BODY_BYTES:
            raise TooLarge(f"the body has {len(raw):,} bytes; at most {MAX_BODY_BYTES:,} are read")
        return JsonLines(line for line in raw.split(b"\n") if line.strip())


def _parser(media: str) -> type[BaseParser]:
    return type("LinesParser", (_LinesParser,), {"media_type": media})


class EstimateBulkView(ApiView):
    needs: ClassVar = {"POST": "read"}
    parser_classes: Sequence[type[BaseParser]] = (StrictJSONParser, *(_parser(media) for media in LINE_TYPES))

    @extend_schema(
        operation_id="estimate_bulk",
        request={JSON: ref("BulkEstimateRequest"), LINES: {"type": "string"}},
        responses={200: ref("BulkEstimate")},
    )
    def post(self, request: Request) -> HttpResponse:
        """A JSON array gives `results` in its order; JSON lines give a line for each, an estimate or an `error`."""
        given = request.data
        if not isinstance(given, list):
            raise InvalidRequest([Fault("", "wrong_type", "send a JSON array of estimate requests, or JSON lines")])
        most = settings.ESTIMATES_PER_BULK
        if not 1 <= len(given) <= most:
            detail = f"{len(given):,} requests; one bulk request takes 1 to {most}"
            raise InvalidRequest([Fault("", "wrong_length", detail)])
        answers = list(_answers(given, context_for(self.actor.team)))
        if isinstance(given, JsonLines):
            return HttpResponse("\n".join([*answers, ""]), content_type=LINES)
        return HttpResponse(f'{{"results":[{",".join(answers)}]}}', content_type=JSON)


def _answers(given: Iterable[object], context: RequestContext) -> Iterator[str]:
    """A line for each: those that can be read are answered together, the others by their problem."""
    read = [_read(entry, context) for entry in given]
    answered = _together([scenario for scenario in read if isinstance(scenario, Scenario)])
    for found in read:
        if isinstance(found, PlannerError):
            count_estimate(found.code)
            yield write_document({"error": _problem(found)})
        else:
            count_estimate("ok")
            yield write_document(next(answered))


def _together(scenarios: list[Scenario]) -> Iterator[dict[str, Any]]:
    try:
        return iter(answers(scenarios))
    except Exception:
        count_estimate("internal_error")
        raise


def _read(entry: object, context: RequestContext) -> Scenario | PlannerError:
    try:
        return read_estimate(read_document(entry) if isinstance(entry, bytes) else entry, context)
    except PlannerError as error:
        return error


def _problem(error: PlannerError) -> dict[str, Any]:
    return problem_document(
        status=error.http_status,
        code=error.code,
        title=error.title,
        detail=error.detail,
        faults=error.faults,
    )
