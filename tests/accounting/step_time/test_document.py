"""docs/time-model.md says what the code does: its terms are the code's, its scores are of the shipped constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accounting.facts.calibration import CALIBRATION
from accounting.step_time.report import lines_of, markdown_table, terms_table, with_block
from hardware.records import catalog_from_csv
from planner.requests import RequestContext
from planner.validation.measured_rows import PUBLISHED, read_measured_rows
from planner.validation.refit import steps_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "time-model.md"


def test_the_document_lists_the_terms_of_the_code() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_block(text, "terms", terms_table()) == text, "run manage.py calibrate --document docs/time-model.md"


def test_its_scores_are_of_the_shipped_constants() -> None:
    scored = DOCUMENT.read_text(encoding="utf-8").split("<!-- scores -->")[1]
    assert f"Constants {CALIBRATION.version}." in scored
    assert "mean of sources" in scored


def test_its_scores_are_what_the_published_steps_give_today() -> None:
    context = RequestContext(catalog=catalog_from_csv(), find_model=_no_model, pools={})
    rows = read_measured_rows(PUBLISHED)
    fitted, report = (
        steps_of([row for row in rows if row["part"] == part], context).judged(CALIBRATION)
        for part in ("fit", "report")
    )
    block = DOCUMENT.read_text(encoding="utf-8").split("<!-- scores -->")[1].split("<!-- /scores -->")[0]
    found = markdown_table(lines_of(fitted, report, {})).splitlines()
    # All but the last column, the sources left out, which takes minutes.
    said = [line.rsplit("|", 2)[0] for line in block.splitlines() if line.startswith("|")]
    assert said == [line.rsplit("|", 2)[0] for line in found], (
        "manage.py calibrate --iterations 0 --leave-out --document"
    )


def _no_model(slug: str) -> Any:
    raise KeyError(slug)


def test_a_document_without_the_block_is_refused() -> None:
    with pytest.raises(ValueError, match="scores"):
        with_block("nothing here", "scores", "")
