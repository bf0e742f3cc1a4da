"""Estimates asked for at once: each gets its own answer, and a fault stays with whom it belongs to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from accounting.batch import answers
from accounting.scenario import Scenario
from planner.requests import together
from planner.requests.together import Together
from tests.accounting.step_time.scenes import DENSE, scene


def many(count: int = 24) -> list[Scenario]:
    return [
        replace(scene(DENSE, dp_shard=8, micro_batch_size=1 + place), warnings=(f"{place}",)) for place in range(count)
    ]


def test_each_gets_its_own() -> None:
    line, asked = Together(), many()
    with ThreadPoolExecutor(len(asked)) as pool:
        assert list(pool.map(line.answer, asked)) == answers(asked)


def test_those_that_wait_are_answered_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    line, asked, sizes = Together(), many(6), []

    def watched(scenarios: list[Scenario]) -> list[dict[str, Any]]:
        sizes.append(len(scenarios))
        return answers(scenarios)

    monkeypatch.setattr(together, "answers", watched)
    with ThreadPoolExecutor(len(asked)) as pool:
        with line._turn:
            waiting = [pool.submit(line.answer, one) for one in asked]
            while len(line._waiting) < len(asked):
                pass
        assert [task.result() for task in waiting] == answers(asked)
    assert sizes == [len(asked)]


def test_a_fault_stays_with_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    line, asked = Together(), many(5)

    def broken(scenarios: list[Scenario]) -> list[dict[str, Any]]:
        if any(one.warnings == ("3",) for one in scenarios):
            raise ZeroDivisionError
        return answers(scenarios)

    monkeypatch.setattr(together, "answers", broken)
    with ThreadPoolExecutor(len(asked)) as pool:
        waiting = [pool.submit(line.answer, one) for one in asked]
        faults = [type(task.exception()) for task in waiting]
    assert faults == [type(None)] * 3 + [ZeroDivisionError, type(None)]


def test_a_thread_that_is_made_to_stop_takes_nobody_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    line, asked, turns = Together(), many(4), []

    def stopped(scenarios: list[Scenario]) -> list[dict[str, Any]]:
        turns.append(len(scenarios))
        if len(turns) == 1:
            raise SystemExit
        return answers(scenarios)

    monkeypatch.setattr(together, "answers", stopped)
    with ThreadPoolExecutor(len(asked)) as pool:
        with line._turn:
            waiting = [pool.submit(line.answer, one) for one in asked]
            while len(line._waiting) < len(asked):
                pass
        ends = [task.exception(timeout=30) for task in waiting]
    assert sorted(str(type(end).__name__) for end in ends) == ["NoneType"] * 3 + ["SystemExit"]
    assert [task.result() for task, end in zip(waiting, ends, strict=True) if end is None] == [
        answer for answer, end in zip(answers(asked), ends, strict=True) if end is None
    ]
