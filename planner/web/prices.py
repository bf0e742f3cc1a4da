"""What the catalog's offers have cost: now, and at every dated row and edit before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from hardware.models import Offer
from planner.web.charts.price_history import PricePoint

FRESH_DAYS, STALE_DAYS = 7, 180
"""A price older than the first is said to be; older than the second, readers are told to refresh it."""


@dataclass(frozen=True)
class Event:
    """A price of one item of one provider from a day on, per device-hour."""

    day: date
    provider: str
    item: tuple[Any, ...]
    usd: float


@dataclass(frozen=True)
class Best:
    """The lowest price of a kind, per device-hour."""

    usd: float
    provider: str
    day: date | None


def day_of(offer: Offer) -> date | None:
    """The day a price held: its own date, or the end of the window it was read in."""
    return offer.price_date or offer.price_not_after


def newest(offers: Iterable[Offer]) -> list[Offer]:
    """The latest price of every item: earlier dates of the same item are history."""
    latest: dict[tuple[Any, ...], Offer] = {}
    for offer in offers:
        key = _item(offer)
        held = latest.get(key)
        if held is None or (day_of(offer) or date.min) >= (day_of(held) or date.min):
            latest[key] = offer
    return list(latest.values())


def _item(offer: Offer) -> tuple[Any, ...]:
    return (offer.provider, offer.region, offer.instance_name, offer.accelerator_count, offer.pricing_kind,
            offer.commitment)  # fmt: skip


def best_of(offers: Iterable[Offer], kind: str) -> Best | None:
    """The cheapest current price of a kind."""
    known = [offer for offer in offers if offer.pricing_kind == kind]
    if not known:
        return None
    cheapest = min(known, key=lambda offer: offer.usd_per_accelerator_hour)
    return Best(float(cheapest.usd_per_accelerator_hour), cheapest.provider, day_of(cheapest))


def events_of(offers: list[Offer], edits: Iterable[Any]) -> list[Event]:
    """Dated prices of the rows as they stand, and what each row said before it was edited."""
    found: list[Event] = []
    by_row: dict[int, list[Any]] = defaultdict(list)
    for record in edits:
        by_row[record.id].append(record)
    for offer in offers:
        records = sorted(by_row.get(offer.pk, ()), key=lambda record: record.history_date)
        before: float | None = None
        for record in [*records, offer]:
            usd = float(record.usd_per_hour) / record.accelerator_count
            day = record.price_date or record.price_not_after
            if usd == before or day is None:
                continue
            # The first record says the price's own day; a later edit without a new date holds from the edit on.
            changed = None if before is None or record is offer else record.history_date.date()
            found.append(Event(max(day, changed) if changed else day, offer.provider, _item(offer), usd))
            before = usd
    return sorted(found, key=lambda event: event.day)


def by_provider(events: Iterable[Event]) -> dict[str, list[PricePoint]]:
    """Each provider's lowest price over time: a point wherever it changes."""
    now: dict[str, dict[tuple[Any, ...], float]] = defaultdict(dict)
    lines: dict[str, list[PricePoint]] = defaultdict(list)
    for event in events:
        now[event.provider][event.item] = event.usd
        _note(lines[event.provider], event.day, min(now[event.provider].values()))
    return dict(lines)


def lowest(events: Iterable[Event]) -> list[PricePoint]:
    """The lowest price of all providers over time."""
    now: dict[tuple[Any, ...], float] = {}
    line: list[PricePoint] = []
    for event in events:
        now[event.item] = event.usd
        _note(line, event.day, min(now.values()))
    return line


def _note(line: list[PricePoint], day: date, usd: float) -> None:
    if line and line[-1].day == day:
        line.pop()
    if not line or line[-1].usd != usd:
        line.append(PricePoint(day, usd))


def last_seen(offers: Iterable[Offer]) -> Mapping[str, date]:
    """The last day each provider's offer was compared with its source."""
    seen: dict[str, date] = {}
    for offer in offers:
        day = max(filter(None, (day_of(offer), offer.checked_date)), default=None)
        if day is not None:
            seen[offer.provider] = max(seen.get(offer.provider, day), day)
    return seen


def age_tag(day: date | None, today: date) -> tuple[str, str]:
    """(tone, words) of how old a price is."""
    if day is None:
        return "bad", "? never"
    days = (today - day).days
    words = "today" if days <= 0 else f"{days:,} day{'' if days == 1 else 's'}"
    if days <= FRESH_DAYS:
        return "ok", f"\u2713 {words}"
    return "warn", f"! {words}"
