"""Guessing passwords and tokens is made slow: so many tries for one account, and from one address, in a window of time.

Counted in the shared cache, for all processes together; while that is away nobody is held up.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

import redis
import structlog
from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from planner.errors import TooManyTries
from planner.ops.counters import count_up, counters

log = structlog.get_logger(__name__)

WINDOW_SECONDS = 300
TRIES_PER_ACCOUNT = 10
TRIES_PER_ADDRESS = 100
"""Of signing in, and of tokens that are not ours: an office may share one address."""
LONGEST_NAME = 150
"""Of an account, by Django."""


def _key(kind: str, who: str) -> str:
    # A digest: what people type into the field of the name is now and then their password.
    digest = hashlib.sha256(who.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"tries:{kind}:{digest}:{int(time.time() // WINDOW_SECONDS)}"


def count_try(kind: str, who: str, most: int) -> None:
    """One more try. Raises TooManyTries from the try after `most` to the end of the window."""
    try:
        tried = count_up(_key(kind, who), keep_seconds=WINDOW_SECONDS)
    except redis.RedisError as error:
        log.warning("tries_not_counted", error=type(error).__name__)
        return
    if tried > most:
        left = WINDOW_SECONDS - int(time.time() % WINDOW_SECONDS)
        raise TooManyTries("wait before the next try; a right answer is not heard either until then", left)


def address_of(request: HttpRequest) -> str:
    """The peer's address; behind the operator's proxy the one that the proxy wrote down last, for it alone is true."""
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.BEHIND_TLS_PROXY else ""
    return forwarded.rpartition(",")[2].strip() or str(request.META.get("REMOTE_ADDR", ""))


def refuse_token_guessing(request: HttpRequest) -> None:
    """Called for a token that is not ours. Raises TooManyTries; tokens that are right are never counted."""
    count_try("token", address_of(request), TRIES_PER_ADDRESS)


@receiver(user_logged_in)
def forget_tries(user: Any, **_: Any) -> None:
    """Who got in begins anew: mistyping it now and then over a morning locks nobody out."""
    try:
        counters().delete(f"{settings.REDIS_PREFIX}{_key('account', user.get_username().casefold())}")
    except redis.RedisError as error:
        log.warning("tries_not_counted", error=type(error).__name__)


class LoginLimitMiddleware:
    """429 with `Retry-After` for a name, or from an address, that has signed in wrongly too often."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self.doors = frozenset((reverse("web:login"), reverse("admin:login")))

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method == "POST" and request.path_info in self.doors:
            name = str(request.POST.get("username", ""))[:LONGEST_NAME].casefold()
            try:
                count_try("account", name, TRIES_PER_ACCOUNT)
                count_try("address", address_of(request), TRIES_PER_ADDRESS)
            except TooManyTries as error:
                log.warning("login_refused", address=address_of(request))
                return _refusal(request, error)
        return self.get_response(request)


def _refusal(request: HttpRequest, error: TooManyTries) -> HttpResponse:
    again = error.retry_after_seconds
    response = render(request, "planner/problem.html", {"error": error, "again": again}, status=error.http_status)
    response["Retry-After"] = str(again)
    response["Cache-Control"] = "no-store"
    return response
