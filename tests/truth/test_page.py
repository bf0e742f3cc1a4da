"""docs/validation.md says what the code says today, and holds the sources it must."""

from __future__ import annotations

import json

import pytest

from tests.truth.causes import CAUSES
from tests.truth.page import FIGURES, PAGE, PUBLISHED, drawn, entries, page
from tests.truth.runs import GOAL, by, mean_of_sources, predicted, published, stored, summary

ROWS = [json.loads(line) for line in PUBLISHED.read_text().splitlines()]


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run manage.py write_validation"


@pytest.mark.parametrize("row", [row for row in ROWS if not row.get("stale")], ids=lambda row: row["id"])
def test_published_figures_are_met_within_their_tolerance(row: dict[str, object]) -> None:
    expect = row["expect"]
    assert isinstance(expect, dict)
    for name, _, _, error, _ in entries(row):
        assert abs(error) <= expect.get("tolerance", 0) + 1e-12, name


def test_stale_samples_are_marked_and_differ() -> None:
    stale = [row for row in ROWS if row.get("stale")]
    assert stale
    assert all(abs(error) > 0.01 for row in stale for _, _, _, error, _ in entries(row))


EVERY = 16
"""One run in so many is answered anew; `manage.py write_validation` answers all of them."""


def test_the_table_of_runs_is_what_is_answered_today() -> None:
    rows = published()
    kept = {run.id: run for run in stored()}
    assert list(kept) == [row["id"] for row in rows]
    for run in predicted(rows[::EVERY]):
        assert run == kept[run.id], "run manage.py write_validation"


def test_the_figures_are_of_the_table() -> None:
    for name, text in drawn(stored()).items():
        assert (FIGURES / name).read_text(encoding="utf-8") == text, "run manage.py write_validation"


def test_the_runs_that_judge_meet_the_goals() -> None:
    judging = [run for run in stored() if run.part == "report"]
    whole = summary(judging)
    assert mean_of_sources(judging) <= GOAL
    assert whole.within >= 0.7
    assert whole.over_range <= 0.05
    assert summary(by(judging, "source")["HF ultrascale playbook (nanotron benchmark sweep)"]).mean <= 0.06


def test_every_source_beyond_the_goal_has_its_cause() -> None:
    for members in by(stored(), "part").values():
        far = {source for source, runs in by(members, "source").items() if summary(runs).mean > GOAL}
        assert far <= CAUSES.keys()
