"""Around every view: who acts, the frame of the page, and errors as pages people can act on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers

from planner.errors import Forbidden, PlannerError
from planner.teams.selectors import Actor, actor_of_session
from planner.web.preferences import letter_keys

PLACES = (
    ("Plans", "web:plans"),
    ("Calculator", "web:calculator"),
    ("Hardware", "web:hardware"),
    ("Models", "web:models"),
    ("Validations", "web:validations"),
    ("API", "api:docs"),
)
TEAM_KEY = "team"
"""Where the session keeps the slug of the team a person acts for."""


@dataclass(frozen=True)
class Place:
    """One entry of the main navigation."""

    name: str
    href: str
    current: bool


def places(current: str) -> tuple[Place, ...]:
    """The main navigation."""
    return tuple(Place(name, reverse(view), name == current) for name, view in PLACES)


def show(
    request: HttpRequest,
    actor: Actor | None,
    template: str,
    context: dict[str, Any],
    *,
    place: str = "Plans",
    status: int = 200,
) -> HttpResponse:
    """A page in its frame."""
    frame = {"actor": actor, "places": places(place), "letters": letter_keys(request)}
    answer = render(request, f"planner/{template}", frame | context, status=status)
    patch_vary_headers(answer, ["HX-Request"])
    return answer


def is_live(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page; going back in the history asks for the whole of it."""
    return request.headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in request.headers


def problem(request: HttpRequest, actor: Actor | None, error: PlannerError) -> HttpResponse:
    """What happened and what to do, with the status the error stands for."""
    context = {"error": error, "again": error.retry_after_seconds}
    return show(request, actor, "problem.html", context, status=error.http_status)


Parameters = ParamSpec("Parameters")
View = Callable[Concatenate[HttpRequest, Actor, Parameters], HttpResponse]


def acting(request: HttpRequest, user: User) -> Actor | None:
    """The person in the team they chose, else in their first."""
    chosen = request.session.get(TEAM_KEY)
    return (actor_of_session(user, chosen) if chosen else None) or actor_of_session(user)


def door(need: str) -> Callable[[View[Parameters]], Callable[Concatenate[HttpRequest, Parameters], HttpResponse]]:
    """Let a view in for people who are signed in and whose role in their team allows `need`."""

    def wrap(view: View[Parameters]) -> Callable[Concatenate[HttpRequest, Parameters], HttpResponse]:
        def enter(request: HttpRequest, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> HttpResponse:
            if not isinstance(request.user, User):
                return redirect_to_login(request.get_full_path(), reverse("web:login"))
            actor = acting(request, request.user)
            try:
                if actor is None:
                    raise Forbidden("You are in no team yet. An administrator adds you to one.")
                if need not in actor.allowed:
                    raise Forbidden("Your role in this team lets you read, not plan. An administrator changes it.")
                return view(request, actor, *args, **kwargs)
            except PlannerError as error:
                return problem(request, actor, error)

        update_wrapper(enter, view)
        return enter

    return wrap
