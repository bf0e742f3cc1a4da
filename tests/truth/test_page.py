"""docs/validation.md says what the code says today, and holds the sources it must."""

from __future__ import annotations

import json

import pytest

from tests.truth.page import PAGE, PUBLISHED, entries, page

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
