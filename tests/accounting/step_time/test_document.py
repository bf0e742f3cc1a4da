"""docs/time-model.md says what the code does: its terms are the code's, its scores are of the shipped constants."""

from __future__ import annotations

from pathlib import Path

import pytest

from accounting.facts.calibration import CALIBRATION
from accounting.step_time.report import terms_table, with_block

DOCUMENT = Path(__file__).parents[3] / "docs" / "time-model.md"


def test_the_document_lists_the_terms_of_the_code() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_block(text, "terms", terms_table()) == text, "run manage.py calibrate --document docs/time-model.md"


def test_its_scores_are_of_the_shipped_constants() -> None:
    scored = DOCUMENT.read_text(encoding="utf-8").split("<!-- scores -->")[1]
    assert f"Constants {CALIBRATION.version}." in scored
    assert "mean of sources" in scored


def test_a_document_without_the_block_is_refused() -> None:
    with pytest.raises(ValueError, match="scores"):
        with_block("nothing here", "scores", "")
