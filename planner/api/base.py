"""What every view of the API shares: its doors in and out, stated here so that no setting can open them wider."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

import redis
import structlog
from django.conf import settings
from rest_framework.authentication import SessionAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from planner.api.auth import BearerAuthentication, TeamPermission
from planner.api.handler import problem_handler
from planner.documents import read_document
from planner.errors import UnsupportedMediaType
from planner.ops.counters import count_up
from planner.teams.selectors import Actor

log = structlog.get_logger(__name__)

WINDOW_SECONDS = 60


class StrictJSONParser(BaseParser):
    """application/json in UTF-8, read by `read_document`."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        charset = dict(part.strip().lower().partition("=")[::2] for part in (media_type or "").split(";")[1:]).get(
            "charset", "utf-8"
        )
        if charset.strip('"') not in ("utf-8", "utf8"):
            raise UnsupportedMediaType("JSON is read as UTF-8 only")
        return read_document(stream.read())


class JsonOnly(BaseContentNegotiation):
    """There is one form of answer, so `Accept` chooses nothing (RFC 9110 §12.4.1 allows to disregard it)."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        media = (request.content_type or "").split(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == media), None)

    def select_renderer(self, request: Any, renderers: Any, format_suffix: str | None = None) -> tuple[Any, str]:
        return renderers[0], renderers[0].media_type


class ActorThrottle(BaseThrottle):
    """So many requests a minute for each token, counted in the shared cache; a cache that is away limits nobody."""

    def allow_request(self, request: Any, view: Any) -> bool:
        window = int(time.time() // WINDOW_SECONDS)
        try:
            used = count_up(f"throttle:{view.actor.key}:{window}", keep_seconds=2 * WINDOW_SECONDS)
        except redis.RedisError as error:
            log.warning("throttle_without_cache", error=type(error).__name__)
            return True
        return used <= settings.API_REQUESTS_PER_MINUTE

    def wait(self) -> float:
        return WINDOW_SECONDS - time.time() % WINDOW_SECONDS


class ApiView(APIView):
    """A view of one team's things; `needs` names the right that each method asks for (reading where it names none)."""

    authentication_classes = (
        BearerAuthentication,
        SessionAuthentication,
    )
    permission_classes = (TeamPermission,)
    parser_classes: Sequence[type[BaseParser]] = (StrictJSONParser,)
    renderer_classes = (JSONRenderer,)
    throttle_classes = (ActorThrottle,)
    content_negotiation_class = JsonOnly
    metadata_class = None
    versioning_class = None
    needs: ClassVar[dict[str, str]] = {}
    actor: Actor

    def get_exception_handler(self) -> Any:
        return problem_handler
