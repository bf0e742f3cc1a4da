"""What becomes of a step over the whole job: time that trains, checkpoints, paid hours, energy, terms of the price."""

from __future__ import annotations

from planner.web import format as text
from planner.web import words
from planner.web.ledger import Fact
from planner.web.words import Json


def run_facts(option: Json) -> tuple[Fact, ...]:
    """The facts of an option's whole job; nothing where its answer is older than they are."""
    run = option.get("run") or {}
    if not run:
        return ()
    offer, goodput = option.get("offer") or {}, run.get("goodput")
    timed = option.get("hours") is not None
    facts = [
        Fact("Time that trains", text.share(goodput, 1.0)) if goodput is not None else None,
        Fact("Checkpoint every", _interval(run), subject="hours" if timed else ""),
        Fact("Paid hours", text.hours(run.get("billed_hours")), subject="cost") if option.get("usd") else None,
        Fact("Billed", words.billing(offer)) if offer else None,
        Fact("Price", priced(offer) if offer else text.NO_PRICE),
        Fact("Cost per million tokens", text.money_fine(run.get("usd_per_million_tokens"))),
        Fact("Energy of the GPUs, at most", energy(run.get("energy_kwh"))) if timed else None,
    ]
    return tuple(fact for fact in facts if fact is not None)


def _interval(run: Json) -> str:
    every = run.get("checkpoint_interval_seconds")
    if every is None:
        return "never: nothing fails"
    return text.duration(every) if every else "step: checkpoints cost nothing"


def priced(offer: Json) -> str:
    """'on-demand, us-east-1, of 2026-07-20': kind, place and day of a price."""
    terms = [str(offer[name]) for name in ("pricing", "commitment", "region") if offer.get(name)]
    day = offer.get("price_date")
    return ", ".join([*terms, f"of {day}" if day else "of no exact day"])


def energy(kilowatt_hours: float | None) -> str:
    """Energy in kWh, in MWh from a thousand on."""
    if kilowatt_hours is None:
        return text.NOT_KNOWN
    if kilowatt_hours < 1000:  # noqa: PLR2004 - the next unit
        return f"{text.significant(kilowatt_hours)}{text.NBSP}kWh"
    return f"{text.significant(kilowatt_hours / 1000)}{text.NBSP}MWh"
