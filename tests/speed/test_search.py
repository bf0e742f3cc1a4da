"""What a whole plan costs: time against the one-at-a-time loop, and memory that does not grow with the space."""

from __future__ import annotations

import statistics
import tracemalloc
from typing import Any

from accounting import estimate
from planner.requests import read_estimate, read_plan
from planner.search import search
from planner.search.scan import scan
from tests.planner.requests.samples import CONTEXT, PLAN, put
from tests.speed.test_rates import seconds, whole_catalog

PLANS = 5
MEMORY_LIMIT = 500 * 10**6


def test_a_plan_over_the_whole_catalog_against_a_loop() -> None:
    problem = whole_catalog()
    answers: list[dict[str, Any]] = []
    times = [
        seconds(lambda: answers.append(search(problem, lambda done, total: None, lambda: False))) for _ in range(PLANS)
    ]
    middle = statistics.median(times)
    request = answers[0]["recommendation"]["estimate"]
    alone = seconds(lambda: [estimate(read_estimate(request, CONTEXT)) for _ in range(10)]) / 10
    candidates = answers[0]["search"]["candidates"]
    ratio = candidates * alone / middle
    print(
        f"\n{candidates:,} candidates: p50 {middle:.2f} CPU s a plan, {candidates / middle:,.0f} candidates a second; "
        f"one at a time {candidates * alone:,.0f} s: {ratio:,.0f} times"
    )
    assert ratio > 1000


def test_the_memory_of_a_search_does_not_grow_with_the_space() -> None:
    def peak(largest: int) -> tuple[int, int]:
        axes = {"micro_batch_sizes": list(range(1, largest + 1)), "tp": [1, 2, 4, 8], "recompute": ["none"]}
        problem = read_plan(
            put(PLAN, ("/hardware/max_count", 512), ("/search", axes), ("/engines", ["fsdp2"])), CONTEXT
        )
        tracemalloc.start()
        found = scan(problem, lambda done, total: None, lambda: False)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return found.candidates, most

    small, at_small = peak(8)
    large, at_large = peak(64)
    print(f"\n{small:,} candidates peak at {at_small / 1e6:,.0f} MB, {large:,} at {at_large / 1e6:,.0f} MB")
    assert large > 7 * small
    assert at_large < MEMORY_LIMIT
