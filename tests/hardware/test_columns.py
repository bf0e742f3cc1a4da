"""Files that cannot be read: every bad cell named by line and column."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from hardware.columns import OFFERS, CatalogFileError, Column, read_table
from hardware.loader import SHIPPED_DATA

OFFER = (
    "aws,us-east-1,p5.48xlarge,,h100-sxm5-80gb,{count},on-demand,,{price},{day},exact,,,{flag},,,,list,,,high,{why},"
)


def write(folder: Path, *lines: str) -> Path:
    header = (SHIPPED_DATA / "offers.csv").read_text(encoding="utf-8").splitlines()[0]
    (folder / "offers.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return folder


def test_every_bad_cell_is_named(tmp_path: Path) -> None:
    first = OFFER.format(count="eight", price="cheap", day="2026-07-20", flag="no", why="")
    second = OFFER.format(count="8", price="1", day="20-7-2026", flag="maybe", why="nothing known")
    with pytest.raises(CatalogFileError) as caught:
        read_table(write(tmp_path, first, second), OFFERS)
    places = [fault.split(": ")[:2] for fault in caught.value.faults]
    assert places == [
        ["offers.csv:2", "accelerator_count"],
        ["offers.csv:2", "usd_per_hour"],
        ["offers.csv:3", "price_date"],
        ["offers.csv:3", "price_confirmed"],
        ["offers.csv:3", "unknown"],
    ]


@pytest.mark.parametrize("line", ["aws,us-east-1", OFFER.format(count=8, price=1, day="", flag="no", why="") + ",more"])
def test_line_of_another_length_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(CatalogFileError, match="number of cells"):
        read_table(write(tmp_path, line), OFFERS)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "offers.csv").write_text("provider,price\naws,1\n", encoding="utf-8")
    with pytest.raises(CatalogFileError, match="the columns must be provider,region"):
        read_table(tmp_path, OFFERS)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("decimal", "0.526"),
        ("decimal", "100"),
        ("number", "15.75"),
        ("number", "3350"),
        ("number", ""),
        ("integer", "1099511627776"),
        ("flag", "no"),
        ("date", "2026-07-20"),
        ("reasons", "power_watts: not published; year: unknown"),
        ("text", "8x (Secure Cloud), note: yes"),
    ],
)
def test_cell_survives_the_way_there_and_back(kind: str, text: str) -> None:
    column = Column("cell", kind)
    assert column.render(column.parse(text)) == text


def test_price_of_a_database_reads_like_that_of_the_file() -> None:
    assert Column("usd_per_hour", "decimal").render(Decimal("55.040000")) == "55.04"


@pytest.mark.parametrize(
    ("kind", "text"), [("number", "nan"), ("number", "inf"), ("decimal", "NaN"), ("decimal", "1e400")]
)
def test_what_is_no_finite_number_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        Column("cell", kind).parse(text)
