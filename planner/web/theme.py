"""Light, dark, or as the system has it: one cookie, read by the server, so no script runs before the first paint."""

from __future__ import annotations

from django.http import HttpRequest

COOKIE = "theme"
THEMES = ("system", "light", "dark")
SECONDS = 365 * 24 * 3600


def read(request: HttpRequest) -> str:
    """The chosen theme; anything unknown in the cookie means system."""
    chosen = request.COOKIES.get(COOKIE, "system")
    return chosen if chosen in THEMES else "system"


def following(theme: str) -> str:
    """The next one round."""
    return THEMES[(THEMES.index(theme) + 1) % len(THEMES)]
