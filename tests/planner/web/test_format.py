"""The number rules, one row each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from planner.web import format as text

GIB = 1 << 30
NB = text.NBSP


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (text.memory, 41 * GIB + GIB // 3, f"41.3{NB}GiB"),
        (text.memory, 5 * 1024 * 1024, f"5.0{NB}MiB"),
        (text.memory, 2458 * GIB, f"2.4{NB}TiB"),
        (text.memory, 0, f"0.0{NB}GiB"),
        (text.memory, None, "not known"),
        (text.gib_number, 44_388_319_232, "41.34"),
        (text.capacity_number, 85_520_809_984, "79.6"),
        (text.need_number, 85_520_809_984, "79.7"),
        (text.memory_difference, -39 * GIB - GIB // 5, f"\u221239.2{NB}GiB"),
        (text.memory_difference, 3 * GIB, f"+3.0{NB}GiB"),
        (text.memory_difference, 0, f"0.0{NB}GiB"),
        (text.hours_difference, 10.4, f"+10.4{NB}h"),
        (text.hours_difference, None, "\u2013"),
        (text.money_difference, -14.2, "\u2212$14.20"),
        (text.duration, 0.0123, f"12{NB}ms"),
        (text.duration, 9.1, f"9.10{NB}s"),
        (text.duration, 119.0, f"119{NB}s"),
        (text.duration, 1500.0, f"25{NB}min"),
        (text.duration, 36.2 * 3600, f"36.2{NB}h"),
        (text.hours, 148.2, f"6{NB}d 4{NB}h"),
        (text.hours, 0.5, f"30{NB}min"),
        (text.hours_in_words, 48.0, f"48{NB}hours"),
        (text.hours_in_words, 36.17, f"36.2{NB}hours"),
        (text.money, 1730.4, "$1,730"),
        (text.money, 12_345_678.0, "$12,345,678"),
        (text.money, 0.42, "$0.42"),
        (text.money, None, "no price"),
        (text.money_rate, 47.84, "$47.84"),
        (text.money_fine, 0.1664, "$0.1664"),
        (text.money_fine, 2.99, "$2.99"),
        (text.count, 8_030_261_248, "8,030,261,248"),
        (text.short_count, 8_030_261_248, f"8.03{NB}B"),
        (text.short_count, 15_000_000_000, f"15{NB}B"),
        (text.short_count, 1_048_576, f"1.05{NB}M"),
        (text.short_count, 100_000_000_000, f"100{NB}B"),
        (text.short_count, 999, "999"),
        (text.significant, 7201.8, "7,200"),
        (text.significant, 0.012345, "0.0123"),
        (text.fraction, 0.4441, f"44.4{NB}%"),
        (text.fraction, None, "not known"),
        (text.day, date(2026, 11, 5), "5 Nov 2026"),
    ],
)
def test_number_is_written_by_its_rule(function: Callable[[object], str], value: object, expected: str) -> None:
    assert function(value) == expected


def test_share_comes_from_the_unrounded_numbers() -> None:
    assert text.share(1, 3) == f"33.3{NB}%"
    assert text.share(1, None) == "\u2013"
    assert text.share(1, 0) == "\u2013"


def test_age_counts_days() -> None:
    assert text.age(date(2026, 11, 5), date(2026, 11, 28)) == f"23{NB}days"
    assert text.age(date(2026, 11, 27), date(2026, 11, 28)) == f"1{NB}day"
    assert text.age(date(2026, 11, 28), date(2026, 11, 28)) == "today"


def test_a_need_never_looks_smaller_and_a_card_never_larger_than_it_is() -> None:
    size = 79 * GIB + 1
    assert float(text.need_number(size)) > size / GIB
    assert float(text.capacity_number(80 * GIB - 1)) < 80
