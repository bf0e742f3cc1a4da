"""What a plan answers, as the contract's JSON values."""

from __future__ import annotations

from dataclasses import fields
from datetime import date
from itertools import islice
from typing import Any

import numpy as np

from accounting.answer import offer_answer as priced_by
from accounting.catalog import Offer
from accounting.cost import RunCost
from accounting.estimate import answers_of, explained
from planner.search.changes import outcome_at, what_if
from planner.search.explain import billing_warnings, explanation, faster, missed_by, price_warnings, why, why_not
from planner.search.found import Found
from planner.search.machines import price_age_days
from planner.search.points import points
from planner.search.problem import PlanProblem
from planner.search.rank import Candidate, nearest_misses
from planner.search.recipes import substituted
from planner.search.scan import Cancelled
from planner.search.shown import Shown
from planner.search.ways import what_would_work

MEMORY_SUMMARY = (
    "by_bucket",
    "by_phase",
    "peak_phase",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "device_bytes",
    "device_bytes_band",
    "evidence",
    "capacity_bytes",
    "headroom_bytes",
    "host_bytes_per_node",
    "fits",
)
TIME_SUMMARY = ("step_seconds", "tokens_per_second", "tokens_per_second_per_device", "mfu", "hfu")


def plan_answer(problem: PlanProblem, found: Found, cancelled: Cancelled) -> dict[str, Any]:
    """Everything but the provenance, which the caller knows.

    `options` has one entry a place (device, node type, kind of price, count), its best layout, in the objective's
    order; `frontier` is over all candidates, so it may hold other layouts of the same place; a row in both carries its
    rank.
    """
    shown = Shown(problem, found)
    misses = nearest_misses(problem, found)
    options = [option(problem, shown, row, rank, shown.ranked[0]) for rank, row in enumerate(shown.ranked, start=1)]
    recommended = None
    if shown.best is not None:
        best, _, answer = shown.of(shown.best)
        recommended = options[0] | {"answer": _priced(best, answer)}
    rank_of = {row: rank for rank, row in enumerate(shown.ranked, start=1)}
    candidates = [shown.of(row)[0] for row in shown.ranked]
    front = [option(problem, shown, row, rank_of.get(row), shown.best or 0) for row in shown.front]
    return {
        "recommendation": recommended,
        "options": options,
        "frontier": front,
        "points": points(shown.ranking, shown.front, rank_of),
        **_reasons(problem, found, shown, misses, cancelled),
        "rejections": {reason: found.rejected[reason] for reason in sorted(found.rejected)},
        "nearest_misses": [miss(problem, reason, one) for reason, one in misses],
        "assumptions": [*problem.assumptions, *substituted(problem)],
        "warnings": [*problem.warnings, *_price_words(problem, candidates)],
        "search": {"candidates": found.candidates, "feasible": found.feasible_count},
        "provenance": {
            "price_dates": price_dates(candidates),
            "prices_as_of": _day(problem.as_of),
            "tokens": problem.tokens,
        },
    }


def _reasons(
    problem: PlanProblem,
    found: Found,
    shown: Shown,
    misses: list[tuple[str, Candidate]],
    cancelled: Cancelled,
) -> dict[str, Any]:
    """Why the winner wins, what rules out the others, what one change would do."""
    if shown.best is None:
        return {"why": [], "why_not": [], "what_if": what_would_work(problem, misses, cancelled)}
    best, result, _ = shown.of(shown.best)
    rival = shown.rival(best)
    quickest = shown.ranking.fastest()
    fastest = None if quickest is None else shown.ranking.candidate(quickest)
    against = why_not(problem, found, best, misses) + faster(fastest, best)
    return {
        "why": why(problem, found, best, rival, result.waiting),
        "why_not": against[:3],
        "what_if": what_if(problem, result, _next_price(shown, best)),
    }


def _next_price(shown: Shown, best: Candidate) -> float:
    """Dollars at which another price would take over: the next one of the same machine, or another machine's best."""
    others = (shown.ranking.candidate(int(row)) for row in islice(shown.places, 1, None))
    elsewhere = next((one.total for one in others if one.machine is not best.machine), np.inf)
    machine = best.machine
    if machine.offer is None or machine.next_usd_per_hour is None:
        return elsewhere
    return min(elsewhere, best.total * machine.next_usd_per_hour / machine.offer.usd_per_hour)


def _priced(one: Candidate, answer: dict[str, Any]) -> dict[str, Any]:
    """The whole estimate answer of one candidate, priced."""
    return answer | {"cost": cost_answer(one, answer["time"]["tokens_per_second"])}


def cost_answer(one: Candidate, tokens_per_second: float | None) -> dict[str, Any]:
    """The contract's `cost` of an estimate."""
    per_hour = number(one.usd_per_hour)
    per_million = None
    if per_hour is not None and tokens_per_second:
        per_million = per_hour / 3600 / tokens_per_second * 1e6
    return {
        "usd_per_hour": per_hour,
        "usd_per_million_tokens": per_million,
        "offer": offer_answer(one.machine.offer, None),
    }


def option(problem: PlanProblem, shown: Shown, row: int, rank: int | None, best: int) -> dict[str, Any]:
    """One option: the request that reproduces it, its numbers, its sentence. `best` is the row it is held against."""
    one, result, answer = shown.of(row)
    memory, time = answer["memory"], answer["time"]
    low, high = result.hours_band
    least, most = result.usd_band
    rate = one.usd_per_hour
    return {
        "rank": rank,
        "estimate": problem.write_request(one.scenario, 0),
        "hours": number(one.hours),
        "hours_band": [number(low), number(high)],
        "usd": number(one.usd),
        "usd_band": [number(least), number(most)],
        "usd_per_hour": number(rate),
        "step_seconds": number(one.step_seconds),
        "device_bytes": memory["device_bytes"],
        "headroom_bytes": memory["headroom_bytes"],
        "explanation": explanation(problem, rank, one, shown.of(best)[0]),
        "exports": {},
        "memory": {name: memory[name] for name in MEMORY_SUMMARY},
        "time": {name: time[name] for name in TIME_SUMMARY},
        "run": run_answer(result.run),
        "offer": offer_answer(one.machine.offer, problem.as_of),
        "other_prices": one.machine.others,
        "nodes": -(-one.count // one.machine.node_devices),
        "warnings": answer["warnings"],
    }


def run_answer(run: RunCost) -> dict[str, Any]:
    """What becomes of the step over the whole job; null where a price, a power or the length is not known.

    `checkpoint_interval_seconds` is null where nothing ever fails; `energy_kwh` is that of the devices at their limit.
    """
    row = {item.name: number(float(getattr(run, item.name)[0, 0])) for item in fields(run)}
    by_second = number(float((run.hours * run.usd_per_hour)[0, 0]))
    return {
        "steps": None if row["steps"] is None else int(row["steps"]),
        "goodput": row["goodput"],
        "checkpoint_interval_seconds": row["checkpoint_interval_seconds"],
        "billed_hours": row["billed_hours"],
        "usd_by_the_second": by_second,
        "usd_per_million_tokens": row["usd_per_million_tokens"],
        "energy_kwh": row["energy_kilowatt_hours"],
    }


def offer_answer(offer: Offer | None, as_of: date | None) -> dict[str, Any] | None:
    """A price with its place, kind, date, age on a day and source; None where there is none."""
    price = priced_by(offer)
    return None if price is None or offer is None else price | {"price_age_days": price_age_days(offer, as_of)}


def miss(problem: PlanProblem, reason: str, one: Candidate) -> dict[str, Any]:
    """A candidate that came close: by how much it missed, in numbers and words, and its whole ledger."""
    known = explained([one.scenario])
    result = outcome_at(problem, known, 0)
    limits = problem.constraints
    by: dict[str, float | int | None] = dict.fromkeys(("bytes", "hours", "usd", "tokens_per_second"))
    if reason == "memory":
        by["bytes"] = result.need - result.limit
    elif reason == "deadline":
        by["hours"] = one.hours - (limits.deadline_hours or 0.0)
    elif reason == "throughput":
        by["tokens_per_second"] = (limits.min_tokens_per_second or 0.0) - one.tokens_per_second
    else:
        by["usd"] = one.usd - (limits.budget_usd or 0.0)
    return {
        "reason": reason,
        "text": missed_by(problem, reason, one),
        "estimate": problem.write_request(one.scenario, 0),
        "misses_by_bytes": by["bytes"],
        "misses_by_hours": by["hours"],
        "misses_by_usd": by["usd"],
        "misses_by_tokens_per_second": by["tokens_per_second"],
        "hours": number(one.hours),
        "usd": number(one.usd),
        "device_bytes": result.device_bytes,
        "answer": _priced(one, answers_of(known)[0]),
    }


def price_dates(shown: list[Candidate]) -> list[str]:
    """Distinct dates of the prices behind the options, oldest first."""
    offers = [one.machine.offer for one in shown]
    return sorted({offer.price_date.isoformat() for offer in offers if offer is not None and offer.price_date})


def _price_words(problem: PlanProblem, shown: list[Candidate]) -> list[str]:
    """What the prices ask of their reader: their age, their kind, how they are billed."""
    return [*price_warnings(shown, problem.as_of), *_kind_warnings(problem, shown), *billing_warnings(shown)]


def _kind_warnings(problem: PlanProblem, shown: list[Candidate]) -> list[str]:
    """What a price that is not on-demand asks of its reader."""
    kinds = {one.machine.offer.pricing_kind for one in shown if one.machine.offer is not None}
    often = problem.goodput.preemptions_per_device_hour
    counted = (
        "count failures, not preemptions (goodput.preemptions_per_device_hour says how often)"
        if often is None
        else f"count {often:g} preemptions per device and hour beside failures"
    )
    said = {
        "spot": f"Spot devices can be taken back: hours and dollars of spot options {counted}.",
        "reserved": "Reserved prices hold for a commitment of months or years; the whole job alone may not fill it.",
    }
    return [said[kind] for kind in sorted(kinds) if kind in said]


def number(value: float) -> float | None:
    """A number of the answer; None where it is not known."""
    return float(value) if np.isfinite(value) else None


def _day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()
