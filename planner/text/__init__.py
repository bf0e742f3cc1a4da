"""Answers as text for people at a terminal."""

from planner.text.estimate import render_estimate
from planner.text.plan import render_plan

__all__ = ["render_estimate", "render_plan"]
