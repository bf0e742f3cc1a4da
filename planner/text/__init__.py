"""Answers as text for people at a terminal."""

from planner.text.compare import render_comparison
from planner.text.estimate import render_estimate
from planner.text.plan import render_plan

__all__ = ["render_comparison", "render_estimate", "render_plan"]
