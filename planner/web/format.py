"""How numbers become words. The only place of the dashboard that rounds.

Every function takes bytes, seconds, hours, US dollars or a plain count, and gives text. Unknown (None) is said
in words: it is never 0. Numbers and units are joined by a no-break space.
"""

from __future__ import annotations

import math
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal

from accounting.units import GIB

NBSP = "\u00a0"
MINUS = "\u2212"
DASH = "\u2013"
NOT_KNOWN = "not known"
NO_PRICE = "no price"

MIB = GIB // 1024
TIB = GIB * 1024

_SECONDS_FROM = 1.0
_MINUTES_FROM = 120.0
_HOURS_FROM = 7200.0
_DAYS_FROM_HOURS = 100.0
_WHOLE_DOLLARS_FROM = 100
_SHORT_FROM = 1000
_DIGITS = 3

_SHORT_UNITS = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))


def fixed(value: float | Decimal, places: int, rounding: str = ROUND_HALF_UP) -> str:
    """A number with exactly `places` decimals, commas between thousands and a true minus sign."""
    rounded = Decimal(str(value)).quantize(Decimal(1).scaleb(-places), rounding=rounding)
    text = f"{abs(rounded):,}"
    return f"{MINUS}{text}" if rounded < 0 else text


def gib_number(size: int | None, places: int = 2) -> str:
    """Bytes as a bare count of GiB, for columns that say the unit in their header."""
    if size is None:
        return NOT_KNOWN
    return fixed(Decimal(size) / GIB, places)


def memory(size: int | None, places: int = 1) -> str:
    """Bytes with the unit that fits: bytes below 0.1 MiB, MiB below 0.01 GiB, TiB from 1,024 GiB, else GiB."""
    if size is None:
        return NOT_KNOWN
    if 0 < abs(size) < MIB / 10:
        return f"{size:,}{NBSP}B".replace("-", MINUS)
    if 0 < abs(size) < GIB / 100:
        return f"{fixed(Decimal(size) / MIB, places)}{NBSP}MiB"
    if abs(size) >= TIB:
        return f"{fixed(Decimal(size) / TIB, places)}{NBSP}TiB"
    return f"{fixed(Decimal(size) / GIB, places)}{NBSP}GiB"


def capacity_number(size: int | None) -> str:
    """A capacity in GiB, rounded down: a card never looks larger than it is."""
    return NOT_KNOWN if size is None else fixed(Decimal(size) / GIB, 1, ROUND_FLOOR)


def capacity(size: int | None) -> str:
    """A capacity with its unit, rounded down."""
    return NOT_KNOWN if size is None else f"{capacity_number(size)}{NBSP}GiB"


def need_number(size: int | None) -> str:
    """A need in GiB that decides something, rounded up: it never looks smaller than it is."""
    return NOT_KNOWN if size is None else fixed(Decimal(size) / GIB, 1, ROUND_CEILING)


def need(size: int | None) -> str:
    """A deciding need with its unit, rounded up."""
    return NOT_KNOWN if size is None else f"{need_number(size)}{NBSP}GiB"


def exact_bytes(size: int | None) -> str:
    """The exact count of bytes, for `title` attributes."""
    return NOT_KNOWN if size is None else f"{size:,}{NBSP}bytes"


def signed(text_of_magnitude: str, value: float) -> str:
    """Put the sign in front of a magnitude that is already written."""
    if value == 0:
        return text_of_magnitude
    return f"{'+' if value > 0 else MINUS}{text_of_magnitude}"


def memory_difference(size: int | None) -> str:
    """A change in bytes, always with its sign."""
    return DASH if size is None else signed(memory(abs(size)), size)


def hours_difference(value: float | None) -> str:
    """A change in hours, always with its sign."""
    return DASH if value is None else signed(f"{fixed(abs(value), 1)}{NBSP}h", value)


def money_difference(value: float | None) -> str:
    """A change in dollars for the whole job, always with its sign."""
    return DASH if value is None else signed(money(abs(value)), value)


def seconds_number(seconds: float | None, places: int = 2) -> str:
    """Seconds as a bare number, for tables that hold one unit."""
    return NOT_KNOWN if seconds is None else fixed(seconds, places)


def duration(seconds: float | None) -> str:
    """A time span: ms, s, min, h with one decimal, then days and hours."""
    if seconds is None:
        return NOT_KNOWN
    if seconds < _SECONDS_FROM:
        return f"{fixed(seconds * 1000, 0)}{NBSP}ms"
    if seconds < _MINUTES_FROM:
        return f"{fixed(seconds, 2 if seconds < _WHOLE_DOLLARS_FROM else 0)}{NBSP}s"
    if seconds < _HOURS_FROM:
        return f"{fixed(seconds / 60, 0)}{NBSP}min"
    return hours(seconds / 3600)


def hours(value: float | None) -> str:
    """A time span given in hours."""
    if value is None:
        return NOT_KNOWN
    if value * 3600 < _HOURS_FROM:
        return duration(value * 3600)
    if value < _DAYS_FROM_HOURS:
        return f"{fixed(value, 1)}{NBSP}h"
    days, rest = divmod(round(value), 24)
    return f"{days:,}{NBSP}d {rest}{NBSP}h"


def hours_number(value: float | None) -> str:
    """Hours as a bare number with one decimal (two below a tenth), for a column of hours."""
    if value is None:
        return NOT_KNOWN
    return fixed(value, 1 if value >= 1 else 2)


def hours_in_words(value: float | None) -> str:
    """Hours in a sentence: '36.2 hours', '48 hours', '6 d 4 h', '25 min'."""
    if value is None:
        return NOT_KNOWN
    if value < _HOURS_FROM / 3600 or value >= _DAYS_FROM_HOURS:
        return hours(value)
    return f"{plain(round(value, 1))}{NBSP}hours"


def money(value: float | None) -> str:
    """US dollars of a whole job: no cents from $100."""
    if value is None:
        return NO_PRICE
    return f"${fixed(value, 0 if value >= _WHOLE_DOLLARS_FROM else 2)}"


def rate_number(value: float | None) -> str:
    """US dollars per hour as a bare number with cents."""
    return NO_PRICE if value is None else fixed(value, 2)


def money_rate(value: float | None) -> str:
    """US dollars per hour, with cents."""
    return NO_PRICE if value is None else f"${fixed(value, 2)}"


def money_fine(value: float | None) -> str:
    """US dollars per GPU-hour or per million tokens: two to four decimals, trailing zeros dropped."""
    if value is None:
        return NO_PRICE
    text = fixed(value, 4)
    while text.endswith("0") and len(text.rsplit(".", 1)[1]) > 2:  # noqa: PLR2004 - two decimals are cents
        text = text[:-1]
    return f"${text}"


def count(value: int | None) -> str:
    """An exact whole number with commas."""
    return NOT_KNOWN if value is None else f"{value:,}"


def plain(value: float) -> str:
    """A number without a needless '.0'."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,}"


def significant(value: float, digits: int = _DIGITS) -> str:
    """A number rounded to `digits` significant digits, with commas and without an exponent."""
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return fixed(round(value, places), max(places, 0))


def short_count(value: int | None) -> str:
    """A count in three digits: 8.03 B, 15 B, 1.05 M."""
    if value is None:
        return NOT_KNOWN
    if abs(value) < _SHORT_FROM:
        return f"{value:,}"
    size, letter = next(row for row in _SHORT_UNITS if abs(value) >= row[0])
    text = significant(value / size)
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text}{NBSP}{letter}"


def share(part: float | None, whole: float | None) -> str:
    """One part of a whole as a percentage with one decimal, from the unrounded numbers."""
    if part is None or not whole:
        return DASH
    return f"{fixed(100 * part / whole, 1)}{NBSP}%"


def fraction(value: float | None) -> str:
    """A fraction (0.444) as a percentage with one decimal."""
    return NOT_KNOWN if value is None else share(value, 1.0)


def day(value: date | None) -> str:
    """A date as people write it: 5 Nov 2026."""
    return NOT_KNOWN if value is None else f"{value.day} {value:%b %Y}"


def age(value: date, today: date) -> str:
    """How old a date is: '23 days', '1 day', 'today'."""
    days = (today - value).days
    if days <= 0:
        return "today"
    return f"{days:,}{NBSP}day{'' if days == 1 else 's'}"
