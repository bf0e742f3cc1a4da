"""The rows an answer shows, those of one recipe estimated together."""

from __future__ import annotations

from typing import Any

from accounting.advice import advice
from accounting.answer import answer_row
from accounting.batch import evaluated
from planner.search.changes import Outcome, outcome_at
from planner.search.found import Found
from planner.search.problem import PlanProblem
from planner.search.rank import Candidate, Ranking


class Shown:
    """The rows an answer shows, each estimated once."""

    def __init__(self, problem: PlanProblem, found: Found) -> None:
        self.problem = problem
        self.ranking = Ranking(found.feasible, found.fleet, problem.objective)
        self.places = self.ranking.places()
        self.ranked = [int(row) for row in self.places[: problem.option_count]]
        self.front = [int(row) for row in self.ranking.frontier()]
        self._outcomes = self._evaluated()

    @property
    def best(self) -> int | None:
        """The first row; None where nothing is feasible."""
        return self.ranked[0] if self.ranked else None

    def of(self, row: int) -> tuple[Candidate, Outcome, dict[str, Any]]:
        """(the candidate, its outcome, its whole estimate answer) of a row of the ranking that is shown."""
        return self._outcomes[row]

    def _evaluated(self) -> dict[int, tuple[Candidate, Outcome, dict[str, Any]]]:
        """Every row that is shown, those of one recipe in one evaluation; advice is the best one's alone."""
        rows = list(dict.fromkeys(self.ranked + self.front))
        ones = [self.ranking.candidate(row) for row in rows]
        outcomes = {}
        for places, found in evaluated([one.scenario for one in ones]):
            advised = advice(found) if rows[places[0]] == self.best else []
            for index, place in enumerate(places):
                answer = answer_row(found, index)
                if rows[place] == self.best:
                    answer["advice"] = advised[index]
                outcomes[rows[place]] = ones[place], outcome_at(self.problem, found, index), answer
        return outcomes

    def rival(self, best: Candidate) -> Candidate | None:
        """The best candidate on another device."""
        others = (self.ranking.candidate(int(row)) for row in self.places[1:])
        slug = best.machine.accelerator.slug
        return next((one for one in others if one.machine.accelerator.slug != slug), None)
