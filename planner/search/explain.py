"""Why the first option is first, and what each of the others gives up, in sentences with one number each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

import numpy as np

from accounting.catalog import Offer
from accounting.units import GIB, MIB
from planner.search.found import Found
from planner.search.machines import price_age_days
from planner.search.problem import PlanProblem
from planner.search.rank import Candidate, better_but_for

OBJECTIVE_WORDS = {"cost": "Cheapest", "time": "Fastest", "devices": "Fewest devices"}
FRESH_DAYS = 7
STALE_DAYS = 180
"""A price older than the first is said to be; older than the second, the reader is told to refresh it."""


PAID_ANYWAY = ("internal", "reserved")
"""Kinds of price that no usage is rounded up for: own devices, and commitments for a whole term."""
HOUR_MATTERS = 0.01
"""Share of a job's dollars from which on an hour more or less is worth a word."""
LIMITS = ("budget", "deadline", "throughput")
LINKS_BIND = 0.25
"""Share of a step spent waiting for links from which they, and not the arithmetic, are worth improving."""


def why(problem: PlanProblem, found: Found, best: Candidate, rival: Candidate | None, waiting: float) -> list[str]:
    """Three lines: its rank, what binds it, what the choice saves over the best on another device (`rival`).

    `waiting`: share of the step that waits for links; NaN where it is not known.
    """
    lines = [f"{OBJECTIVE_WORDS[problem.objective]} of {found.fitting:,} candidates that fit in memory."]
    lines.append(binding(problem, found, best, waiting))
    if rival is not None and np.isfinite(rival.total) and np.isfinite(best.total):
        unit = "" if problem.tokens is not None else " an hour"
        more = rival.total - best.total
        side = f"${more:,.2f} more" if more >= 0 else f"${-more:,.2f} less"
        lines.append(f"The best on another device, {named(rival)}, costs ${rival.total:,.2f}{unit}: {side}.")
    return lines


def binding(problem: PlanProblem, found: Found, best: Candidate, waiting: float) -> str:
    """What stops something better: a limit of the request, the links, memory, or only the price."""
    free = -best.over_bytes / GIB
    if problem.constraints.deadline_hours is not None and better_but_for(found, "deadline", best, problem.objective):
        return f"The deadline of {problem.constraints.deadline_hours:g} h binds; {free:.1f} GiB stay free per device."
    if problem.constraints.budget_usd is not None and better_but_for(found, "budget", best, problem.objective):
        return f"The budget of ${problem.constraints.budget_usd:,.0f} binds; {free:.1f} GiB stay free per device."
    least = problem.constraints.min_tokens_per_second
    if least is not None and better_but_for(found, "throughput", best, problem.objective):
        return f"The least throughput of {least:,.0f} tokens/s binds; {free:.1f} GiB stay free per device."
    most = problem.max_count if problem.pool is None else min(problem.max_count, problem.pool.count)
    if problem.objective == "time" and best.count == most:
        return f"The limit of {most:,} devices binds: no more were tried; {free:.1f} GiB stay free per device."
    if waiting > LINKS_BIND:
        return f"The links bind: {waiting:.0%} of each step waits for them; {free:.1f} GiB stay free per device."
    if found.rejected["memory"]:
        return (
            f"Memory ruled out {found.rejected['memory']:,} candidates; this one leaves {free:.1f} GiB below its limit."
        )
    return f"Only the price binds: every candidate fits, this one with {free:.1f} GiB below its limit."


def why_not(
    problem: PlanProblem, found: Found, best: Candidate, misses: list[tuple[str, Candidate]]
) -> list[dict[str, Any]]:
    """Cheaper or faster ones and what rules them out; unpriced ones in the open."""
    better = [(reason, one) for reason in LIMITS for one in better_but_for(found, reason, best, problem.objective)]
    better += [(reason, one) for reason, one in misses if reason == "memory" and one.total < best.total]
    lines: list[dict[str, Any]] = [{"kind": "no", "text": missed_by(problem, reason, one)} for reason, one in better]
    unpriced = found.rejected["price_unknown"]
    if unpriced:
        lines.append({"kind": "unknown", "text": f"{unpriced:,} candidates have no price and were left out."})
    return lines[:3]


def missed_by(problem: PlanProblem, reason: str, one: Candidate) -> str:
    """A near miss in a sentence: what it is, what it would cost, and by how much it misses."""
    cost = f"would cost ${one.total:,.2f}" if np.isfinite(one.total) else "has no price"
    limits = problem.constraints
    if reason == "deadline" and limits.deadline_hours is not None:
        late = one.hours - limits.deadline_hours
        return f"{named(one)} {cost} but takes {one.hours:,.1f} h: {late:,.1f} h late."
    if reason == "budget" and limits.budget_usd is not None:
        over = one.usd - limits.budget_usd
        return f"{named(one)} takes {one.hours:,.1f} h but costs ${one.usd:,.2f}: ${over:,.2f} over the budget."
    if reason == "throughput" and limits.min_tokens_per_second is not None:
        rate = one.tokens_per_second
        short = limits.min_tokens_per_second - rate
        return f"{named(one)} {cost} but does {rate:,.0f} tokens/s: {short:,.0f} too few."
    return f"{named(one)} {cost} but is {size(one.over_bytes)} over the limit of each device."


def size(amount: int) -> str:
    """Bytes in GiB, or in MiB where that would read 0.0."""
    return f"{amount / GIB:,.1f} GiB" if amount >= GIB // 10 else f"{max(amount / MIB, 0.1):,.1f} MiB"


def faster(fastest: Candidate | None, best: Candidate) -> list[dict[str, Any]]:
    """The fastest option and what its speed costs."""
    if fastest is None or not fastest.hours < best.hours:
        return []
    text = f"{named(fastest)} takes {fastest.hours:,.1f} h instead of {best.hours:,.1f} h"
    more = fastest.total - best.total
    return [{"kind": "no", "text": f"{text}, for ${more:,.2f} more." if np.isfinite(more) else f"{text}."}]


def explanation(problem: PlanProblem, rank: int | None, one: Candidate, best: Candidate) -> str:
    """An option's own sentence, against `best`."""
    free = -one.over_bytes / GIB
    if rank == 1:
        return f"{OBJECTIVE_WORDS[problem.objective]} of all; {free:.1f} GiB stay below its memory limit."
    if not np.isfinite(one.total) or not np.isfinite(best.total):
        return f"Takes {one.step_seconds:.2f} s a step; {free:.1f} GiB stay below its memory limit."
    more = one.total - best.total
    pace = "" if not np.isfinite(one.hours) else f" and takes {one.hours:.1f} h against {best.hours:.1f} h"
    return f"Costs ${abs(more):,.2f} {'more' if more >= 0 else 'less'} than option 1{pace}."


def named(one: Candidate) -> str:
    """'16 × H100 SXM5 80GB'."""
    return f"{one.count} × {one.machine.accelerator.name}"


def price_warnings(shown: Iterable[Candidate], as_of: date | None) -> list[str]:
    """Prices that are old, or that nobody can date, each in one sentence."""
    said = {_price_warning(one.machine.offer, one.machine.accelerator.name, as_of) for one in shown}
    return sorted(text for text in said if text)


def _price_warning(offer: Offer | None, device: str, as_of: date | None) -> str:
    if offer is None or offer.pricing_kind == "internal":
        return ""
    where = f"The {offer.provider} {offer.pricing_kind} price of {device}"
    if offer.price_date is None:
        edges = (("not before", offer.price_not_before), ("not after", offer.price_not_after))
        known = " and ".join(f"{word} {_day(day)}" for word, day in edges if day is not None)
        return f"{where} has no exact date{f' ({known})' if known else ''}: refresh it before you rely on it."
    age = price_age_days(offer, as_of)
    if age is None or age <= FRESH_DAYS:
        return ""
    text = f"{where} is {age} days old ({_day(offer.price_date)})"
    return f"{text}: refresh it before you rely on it." if age > STALE_DAYS else f"{text}."


def billing_warnings(shown: Iterable[Candidate]) -> list[str]:
    """Prices whose billing nobody could be quoted for, where a started hour would change the dollars by 1 % or more."""
    names = set()
    for one in shown:
        offer = one.machine.offer
        if offer is None or offer.pricing_kind in PAID_ANYWAY or offer.billing_period_seconds is not None:
            continue
        if one.usd_per_hour >= HOUR_MATTERS * one.usd:
            names.add(offer.provider)
    if not names:
        return []
    return [
        f"How usage is rounded up is not known of {', '.join(sorted(names))}: these dollars are by the second, "
        "an hour begun may cost more."
    ]


def _day(day: date) -> str:
    return f"{day.day} {day:%b %Y}"
