"""Catalog tables that leave for a spreadsheet: nothing in them runs there, and they come back as they went."""

from __future__ import annotations

from typing import Any

import pytest
import tablib

from hardware.uploads import BoundedCSV, BoundedXLSX

CELLS = (
    "=1+1", '=HYPERLINK("https://example.org")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "-1.5e3", "+7",
    "plain", "'quoted", "a=b", "", "−3", "\n=1+1",
    "\uff1d1+1", "\uff0b1", "\uff0d1+2", "\uff20SUM(A1)",
)  # fmt: skip
RUNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@pytest.mark.parametrize("kind", [BoundedCSV, BoundedXLSX])
def test_formulas_leave_as_texts_and_come_back(kind: type[Any]) -> None:
    sent = tablib.Dataset(*[(cell, 12) for cell in CELLS], headers=["name", "count"])
    content = kind().export_data(sent)
    written = tablib.import_set(content, format=kind().get_title())
    started = [str(text) for text in written["name"] if str(text).startswith(RUNS)]
    assert [text for text in started if text not in ("-1.5e3", "+7")] == [], "numbers alone begin with a sign"
    back = kind().create_dataset(content)
    assert [text or "" for text in back["name"]] == list(CELLS)
    assert {str(count) for count in back["count"]} == {"12"}
