"""Numbers from elsewhere: lines of real trainers' logs, allocator statistics, and what is no number at all."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import InvalidRequest
from planner.validation.imports import read_log_line, read_snapshot
from tests.planner.validation.payloads import IMPORT, case

SUMMARY = """
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |   1024 MiB |  40960 MiB |    100 GiB |     99 GiB |
|---------------------------------------------------------------------------|
| GPU reserved memory   |   2048 MiB |  43008 MiB |  43008 MiB |      0 B   |
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "[rank0]: step: 10  loss:  7.9  memory: 47.50GiB(60.12%)  tps: 5,762  mfu: 33.1%",
            {"peak_reserved_bytes": 51_002_736_640},
        ),
        (
            " iteration 100/ 500 | elapsed time per iteration (ms): 2150.5 | lm loss: 2.1",
            {"step_seconds": 2.1505},
        ),
        (
            "MaxMemAllocated: 12.25 GB max_memory_reserved=13.0GB",
            {"peak_allocated_bytes": 13_153_337_344, "peak_reserved_bytes": 13_958_643_712},
        ),
        ("step_time: 812ms", {"step_seconds": 0.812}),
        ("loss 2.3, nothing else", {}),
    ],
)
def test_lines_of_logs(line: str, found: dict[str, Any]) -> None:
    assert read_log_line(line) == pytest.approx(found)


def test_allocator_statistics_and_their_summary_say_the_same() -> None:
    statistics = {"allocated_bytes.all.peak": 40960 << 20, "reserved_bytes.all.peak": 43008 << 20, "num_ooms": 0}
    expected = {"peak_allocated_bytes": 40960 << 20, "peak_reserved_bytes": 43008 << 20}
    assert read_snapshot(statistics) == expected
    assert read_snapshot(SUMMARY) == expected
    assert read_snapshot({"allocated_bytes.all.peak": True}) == {}


@pytest.mark.parametrize(
    ("measured", "pointer", "code"),
    [
        (None, "/measured", "wrong_type"),
        ({}, "/measured", "required"),
        ({"log_line": "nothing here"}, "/measured/log_line", "not_recognised"),
        ({"memory_snapshot": [1, 2]}, "/measured/memory_snapshot", "wrong_type"),
        ({"memory_snapshot": {"num_ooms": 3}}, "/measured/memory_snapshot", "not_recognised"),
        ({"step_seconds": "fast"}, "/measured/step_seconds", "wrong_type"),
        ({"peak_allocated_bytes": -1}, "/measured/peak_allocated_bytes", "out_of_range"),
        ({"peak_bytes": 1}, "/measured/peak_bytes", "unknown_member"),
        ({"step_seconds": 1.0, "environment": "here"}, "/measured/environment", "wrong_type"),
    ],
)
def test_what_is_no_measurement_is_refused_at_its_place(measured: object, pointer: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        case({**IMPORT, "measured": measured})
    assert (pointer, code) in [(fault.pointer, fault.code) for fault in caught.value.faults]


def test_an_import_without_numbers_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        case({name: value for name, value in IMPORT.items() if name != "measured"})
    assert [(fault.pointer, fault.code) for fault in caught.value.faults] == [("/measured", "required")]


def test_every_form_lands_in_the_same_place() -> None:
    read = case({**IMPORT, "measured": {"log_line": "memory: 40.00GiB(50%)", "step_seconds": 3}})
    assert read.measured == {"peak_reserved_bytes": 40 << 30, "step_seconds": 3, "environment": {}}
    snapshot = case({**IMPORT, "measured": {"memory_snapshot": SUMMARY}})
    assert snapshot.measured is not None
    assert snapshot.measured["peak_allocated_bytes"] == 40960 << 20
