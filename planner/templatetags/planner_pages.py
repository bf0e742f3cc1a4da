"""Template tags: one line each over pure functions."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from planner.web import format as text
from planner.web.charts.marker import path_of
from planner.web.theme import following, read

register = template.Library()


@register.filter
def pct(value: float) -> str:
    """A horizontal position as SVG takes it: per cent with two decimals."""
    return f"{value:.2f}%"


@register.filter
def pct3(value: float) -> str:
    """A horizontal position that must add up: per cent with four decimals."""
    return f"{value:.4f}%"


@register.filter
def px(value: float) -> str:
    """A vertical position as SVG takes it: pixels with one decimal."""
    return f"{value:.1f}"


@register.filter
def down(value: float, by: float) -> float:
    """A vertical position moved down."""
    return value + by


@register.filter
def marker_path(shape: str, size: float) -> str:
    """The outline of a marker."""
    return path_of(shape, size)


@register.filter
def commas(value: int | None) -> str:
    """A whole number with commas."""
    return text.count(value)


@register.filter
def json_text(value: Any) -> str:
    """A JSON value as people read it."""
    return json.dumps(value, indent=2, ensure_ascii=False)


@register.filter
def theme(request: HttpRequest) -> str:
    """The theme the reader chose: system, light or dark."""
    return read(request)


@register.filter
def next_theme(request: HttpRequest) -> str:
    """The theme one press away."""
    return following(read(request))


@register.simple_tag(takes_context=True)
def theme_attribute(context: dict[str, Any]) -> SafeString:
    """`data-theme` of the page, left out where the system decides."""
    request = context.get("request")
    chosen = "system" if request is None else read(request)
    return SafeString("") if chosen == "system" else format_html(' data-theme="{}"', chosen)
