"""The search: every candidate of a plan request, counted, ranked and explained. Pure: accounting only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from planner.search.answer import plan_answer
from planner.search.problem import PlanProblem
from planner.search.scan import Progress, SearchCancelled, scan

__all__ = ["PlanProblem", "SearchCancelled", "search"]


def search(problem: PlanProblem, progress: Progress, cancelled: Callable[[], bool]) -> dict[str, Any]:
    """The contract's plan answer, provenance of catalog and request aside. Raises SearchCancelled.

    Equal problems give equal answers, `search.seconds` aside.
    """
    started = time.perf_counter()
    found = scan(problem, progress, cancelled)
    answer = plan_answer(problem, found, cancelled)
    answer["search"]["seconds"] = time.perf_counter() - started
    return answer
