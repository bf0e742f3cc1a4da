"""Descriptions of models are kept for the next request, within bounds that no client can widen."""

from __future__ import annotations

import tracemalloc

from planner.requests.models import LONGEST_KEPT, model_of


def test_short_descriptions_are_read_once() -> None:
    tensors = [{"name": "once", "shape": [3, 5]}]
    assert model_of("tensors", tensors) is model_of("tensors", tensors)


def test_long_descriptions_leave_nothing_behind() -> None:
    def describe(number: int) -> list[dict[str, object]]:
        return [{"name": f"long{number}.{place}", "shape": [place + 1, 7]} for place in range(3_000)]

    assert len(str(describe(0))) > LONGEST_KEPT
    assert model_of("tensors", describe(0)).parameters == 7 * 3_000 * 3_001 // 2
    tracemalloc.start()
    for number in range(1, 5):
        model_of("tensors", describe(number))
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 4 * LONGEST_KEPT, "less than the texts alone"
