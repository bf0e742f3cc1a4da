"""Estimates asked for at the same moment in one process are one evaluation: arrays of ten rows cost what one row costs.

A request puts its scenario in a line and waits for its turn. Whoever gets the turn answers all that wait by then, so a
busy process works in batches that grow with its load, and a quiet one answers at once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Any

from accounting.batch import MOST_ROWS, answers
from accounting.scenario import Scenario


@dataclass(slots=True)
class _Asked:
    scenario: Scenario
    answer: dict[str, Any] | None = None
    fault: Exception | None = None

    @property
    def open(self) -> bool:
        return self.answer is None and self.fault is None


class Together:
    """A line of scenarios and the turn to answer them."""

    def __init__(self) -> None:
        self._waiting: deque[_Asked] = deque()
        self._turn = Lock()

    def answer(self, scenario: Scenario) -> dict[str, Any]:
        """The contract's answer of a scenario of one row, as it alone would get it to the bit.

        Raises what its own evaluation raises: a fault of one that waits beside it is not its own.
        """
        asked = _Asked(scenario)
        self._waiting.append(asked)
        with self._turn:
            while asked.open:
                self._answer_waiting()
        if asked.fault is not None:
            raise asked.fault
        assert asked.answer is not None
        return asked.answer

    def _answer_waiting(self) -> None:
        """Only the holder of the turn takes from the line."""
        taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_ROWS))]
        try:
            for asked, answer in zip(taken, answers([asked.scenario for asked in taken]), strict=True):
                asked.answer = answer
        except Exception:  # noqa: BLE001 - found again below, for the one it belongs to
            for asked in taken:
                _answer_alone(asked)
        finally:
            # This thread is made to stop: who waits beside it goes back in line, or would wait for nobody.
            self._waiting.extendleft(asked for asked in reversed(taken) if asked.open)


def _answer_alone(asked: _Asked) -> None:
    try:
        (asked.answer,) = answers([asked.scenario])
    except Exception as fault:  # noqa: BLE001 - raised in the thread that asked
        asked.fault = fault


TOGETHER = Together()
"""Of this process."""
