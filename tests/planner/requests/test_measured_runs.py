"""Requests of runs that people published: all of them ran, so none may be refused."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from planner.requests import estimate_request, read_estimate
from tests.planner.requests.samples import CONTEXT

RUNS = [json.loads(line) for line in (Path(__file__).parent / "measured_runs.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("request_", RUNS, ids=range(len(RUNS)))
def test_a_run_that_happened_is_read_and_written_back(request_: dict[str, object]) -> None:
    scenario = read_estimate(request_, CONTEXT)
    written = estimate_request(scenario, 0, request_["model"], CONTEXT.catalog)
    again = read_estimate(json.loads(json.dumps(written)), CONTEXT)
    assert again.recipe == scenario.recipe
    assert again.warnings == scenario.warnings


def test_reading_is_quick() -> None:
    """A file of requests is read faster than it is estimated: three hundred a second on the slowest machine meant."""
    started = time.process_time()
    for request_ in RUNS:
        read_estimate(request_, CONTEXT)
    assert len(RUNS) / (time.process_time() - started) > 300
