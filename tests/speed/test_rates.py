"""How fast candidates are judged, as a ratio to a loop over the same functions in the same run.

Seconds depend on the machine and on who else uses it; the ratio of two rates taken in turns hardly does. `-s` prints
the rates.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from planner.requests import read_plan
from planner.search.problem import PlanProblem
from tests.planner.requests.samples import CONTEXT, PLAN, put
from tests.speed.stream import stream_of

LEAST_RATIO = 300
ROUNDS = 3
LOOPED = 24


def whole_catalog() -> PlanProblem:
    return read_plan(put(PLAN, ("/hardware", {"pricing": ["on-demand"], "max_count": 256})), CONTEXT)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process: what others do on the machine is not in it."""
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize(("engine", "stage"), [("fsdp2", 3), ("megatron", 1)])
def test_a_batch_is_hundreds_of_times_faster_than_a_loop(engine: str, stage: int) -> None:
    stream = stream_of(whole_catalog(), engine, stage)
    assert stream.distinct() == stream.candidates
    picked = np.linspace(0, len(stream.site) - 1, LOOPED).astype(np.int64)
    alone = [stream.take(picked[index : index + 1]) for index in range(LOOPED)]
    # A layout alone is timed on its few machines together: the loop is counted as fast as that makes it.
    looped = sum(one.candidates for one in alone)
    stream.evaluate()
    ratios, rates = [], []
    for _ in range(ROUNDS):
        loop = seconds(lambda: [one.evaluate() for one in alone]) / looped
        batch = seconds(stream.evaluate) / stream.candidates
        ratios.append(loop / batch)
        rates.append((1 / batch, 1 / loop))
    best = int(np.argmax(ratios))
    print(
        f"\n{engine}, {stream.candidates:,} candidates: {rates[best][0]:,.0f} a second and core in batches, "
        f"{rates[best][1]:,.1f} one at a time: {ratios[best]:,.0f} times"
    )
    assert ratios[best] >= LEAST_RATIO
