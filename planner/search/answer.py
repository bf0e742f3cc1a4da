"""What a plan answers, as the contract's JSON values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np

from accounting.catalog import Offer
from planner.search.changes import Outcome, outcome, what_if, what_would_work
from planner.search.explain import explanation, faster, why, why_not
from planner.search.problem import PlanProblem
from planner.search.rank import Candidate, candidates_of, frontier, nearest_misses, one_per_place, ordered
from planner.search.scan import Found

MOST_POINTS = 400
EXPORT_FORMATS: tuple[str, ...] = ()
"""Launch files an option can be written as."""
MEMORY_SUMMARY = (
    "by_bucket",
    "by_phase",
    "peak_phase",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "device_bytes",
    "device_bytes_band",
    "capacity_bytes",
    "headroom_bytes",
    "host_bytes_per_node",
    "fits",
)
TIME_SUMMARY = ("step_seconds", "tokens_per_second", "tokens_per_second_per_device", "mfu", "hfu")


def plan_answer(problem: PlanProblem, found: Found, cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Everything but the provenance, which the caller knows."""
    ranked = ordered(problem, candidates_of(found.feasible, found.machines))
    places = one_per_place(ranked)
    misses = nearest_misses(found)
    best = places[0] if places else None
    shown = places[: problem.option_count]
    front = frontier(ranked)
    options = [option(problem, rank, one, places[0]) for rank, one in enumerate(shown, start=1)]
    rank_of = {id(one): rank for rank, one in enumerate(shown, start=1)}
    recommendation = None
    if best is not None:
        result = outcome(problem, best.scenario)
        recommendation = options[0] | {"answer": explained(problem, best, result)}
    return {
        "recommendation": recommendation,
        "options": options,
        "frontier": [option(problem, rank_of.get(id(one)), one, front[0]) for one in front],
        "points": points(ranked, front, rank_of),
        "why": why(problem, found, best, places) if best else [],
        "why_not": (why_not(problem, found, best, misses) + faster(places, best))[:3] if best else [],
        "what_if": what_if(problem, best.scenario)
        if best
        else what_would_work(problem, cancelled, misses[0][1] if misses else None),
        "rejections": {reason: found.rejected[reason] for reason in sorted(found.rejected)},
        "nearest_misses": [miss(problem, reason, one) for reason, one in misses],
        "assumptions": list(problem.assumptions),
        "warnings": [*problem.warnings, *price_warnings(places[: problem.option_count])],
        "search": {"candidates": found.candidates, "feasible": found.feasible_count},
        "provenance": {"price_dates": price_dates(shown), "tokens": problem.tokens},
    }


def explained(problem: PlanProblem, one: Candidate, result: Outcome) -> dict[str, Any]:
    """The whole estimate answer of one candidate, priced."""
    answer = result.estimate.row(0)
    return answer | {"cost": cost_answer(one, answer["time"]["tokens_per_second"])}


def cost_answer(one: Candidate, tokens_per_second: float | None) -> dict[str, Any]:
    per_hour = number(one.usd_per_hour)
    per_million = None
    if per_hour is not None and tokens_per_second:
        per_million = per_hour / 3600 / tokens_per_second * 1e6
    return {"usd_per_hour": per_hour, "usd_per_million_tokens": per_million, "offer": offer_answer(one.machine.offer)}


def option(problem: PlanProblem, rank: int | None, one: Candidate, best: Candidate) -> dict[str, Any]:
    """One option: the request that reproduces it, its numbers, its sentence."""
    result = outcome(problem, one.scenario)
    answer = result.estimate.row(0)
    memory, time = answer["memory"], answer["time"]
    devices = one.machine.node_type.accelerator_count if one.machine.node_type else 1
    return {
        "rank": rank,
        "estimate": problem.write_request(one.scenario, 0),
        "hours": number(one.hours),
        "usd": number(one.usd),
        "usd_per_hour": number(one.usd_per_hour),
        "step_seconds": number(one.step_seconds),
        "device_bytes": memory["device_bytes"],
        "headroom_bytes": memory["headroom_bytes"],
        "explanation": explanation(problem, rank or 0, one, best),
        "exports": {},
        "memory": {name: memory[name] for name in MEMORY_SUMMARY},
        "time": {name: time[name] for name in TIME_SUMMARY},
        "offer": offer_answer(one.machine.offer),
        "other_prices": one.machine.others,
        "nodes": -(-one.count // devices),
    }


def offer_answer(offer: Offer | None) -> dict[str, Any] | None:
    """A price with its place, kind, date and source; None where there is none."""
    if offer is None:
        return None
    return {
        "provider": offer.provider,
        "region": offer.region,
        "instance": offer.instance,
        "pricing": offer.pricing_kind,
        "commitment": offer.commitment,
        "usd_per_hour": offer.usd_per_hour,
        "accelerator_count": offer.accelerator_count,
        "price_date": _day(offer.price_date),
        "date_precision": offer.date_precision,
        "source": offer.source,
    }


def miss(problem: PlanProblem, reason: str, one: Candidate) -> dict[str, Any]:
    """A candidate that came close: by how much it missed, and its whole ledger."""
    result = outcome(problem, one.scenario)
    limits = problem.constraints
    by: dict[str, float | int | None] = {"bytes": None, "hours": None, "usd": None}
    if reason == "memory":
        by["bytes"] = result.need - result.limit
    elif reason == "deadline":
        by["hours"] = one.hours - (limits.deadline_hours or 0.0)
    else:
        by["usd"] = one.usd - (limits.budget_usd or 0.0)
    return {
        "reason": reason,
        "estimate": problem.write_request(one.scenario, 0),
        "misses_by_bytes": by["bytes"],
        "misses_by_hours": by["hours"],
        "misses_by_usd": by["usd"],
        "hours": number(one.hours),
        "usd": number(one.usd),
        "device_bytes": result.device_bytes,
        "answer": explained(problem, one, result),
    }


def points(ranked: list[Candidate], front: list[Candidate], rank_of: dict[int, int]) -> list[dict[str, Any]]:
    """At most 400 for the plot: frontier, options, then the rest thinned evenly in rank order."""
    on_front = {id(one) for one in front}
    first = [one for one in ranked if id(one) in on_front or id(one) in rank_of]
    rest = [one for one in ranked if id(one) not in on_front and id(one) not in rank_of]
    room = max(MOST_POINTS - len(first), 0)
    step = max(-(-len(rest) // room), 1) if room else len(rest) + 1
    return [
        {
            "hours": number(one.hours),
            "usd": number(one.usd),
            "accelerator": one.machine.accelerator.slug,
            "count": one.count,
            "frontier": id(one) in on_front,
            "rank": rank_of.get(id(one)),
            "fits": True,
        }
        for one in (*first, *rest[::step])
    ]


def price_dates(shown: list[Candidate]) -> list[str]:
    """Distinct dates of the prices behind the options, oldest first."""
    dates = {_day(one.machine.offer.price_date) for one in shown if one.machine.offer and one.machine.offer.price_date}
    return sorted(day for day in dates if day is not None)


def price_warnings(shown: list[Candidate]) -> list[str]:
    """Prices nobody can date, in words."""
    undated = {
        f"The {one.machine.offer.provider} price of {one.machine.accelerator.name} has no exact date."
        for one in shown
        if one.machine.offer is not None and one.machine.offer.price_date is None
    }
    return sorted(undated)


def number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()
