"""Why the first option is first, and what each of the others gives up, in sentences with one number each."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.search.problem import PlanProblem
from planner.search.rank import Candidate
from planner.search.scan import Found

OBJECTIVE_WORDS = {"cost": "Cheapest", "time": "Fastest", "devices": "Fewest devices"}


def why(problem: PlanProblem, found: Found, best: Candidate, ranked: list[Candidate]) -> list[str]:
    """Three lines: its rank, what binds it, what the choice saves."""
    lines = [f"{OBJECTIVE_WORDS[problem.objective]} of {found.feasible_count:,} candidates that meet every limit."]
    lines.append(binding(problem, found, best))
    others = [one for one in ranked[1:] if one.machine.accelerator.slug != best.machine.accelerator.slug]
    if others and np.isfinite(others[0].total) and np.isfinite(best.total):
        other = others[0]
        unit = "" if problem.tokens is not None else " an hour"
        lines.append(
            f"The best on another device, {other.count} × {other.machine.accelerator.name}, "
            f"costs ${other.total:,.2f}{unit}: ${other.total - best.total:,.2f} more."
        )
    return lines


def binding(problem: PlanProblem, found: Found, best: Candidate) -> str:
    """What stops something better: the deadline, the budget, memory, or only the price."""
    free = -best.over_bytes / 2**30
    if problem.constraints.deadline_hours is not None and found.rejected["deadline"]:
        return f"The deadline of {problem.constraints.deadline_hours:g} h binds; {free:.1f} GiB stay free per device."
    if problem.constraints.budget_usd is not None and found.rejected["budget"]:
        return f"The budget of ${problem.constraints.budget_usd:,.0f} binds; {free:.1f} GiB stay free per device."
    if found.rejected["memory"]:
        return f"Memory ruled out {found.rejected['memory']:,} candidates; this one leaves {free:.1f} GiB below its limit."
    return f"Only the price binds: every candidate fits, this one with {free:.1f} GiB below its limit."


def why_not(problem: PlanProblem, found: Found, best: Candidate, misses: list[tuple[str, Candidate]]) -> list[dict[str, Any]]:
    """Cheaper or faster ones and what rules them out; unpriced ones in the open."""
    lines: list[dict[str, Any]] = []
    for reason, one in misses:
        cheaper = np.isfinite(one.total) and one.total < best.total
        if reason == "memory" and cheaper:
            over = one.over_bytes / 2**30
            lines.append({"kind": "no", "text": f"{_name(one)} would cost ${one.total:,.2f} but is {over:.1f} GiB over the limit."})
        elif reason == "deadline" and problem.constraints.deadline_hours is not None:
            late = one.hours - problem.constraints.deadline_hours
            lines.append({"kind": "no", "text": f"{_name(one)} costs ${one.total:,.2f} but takes {one.hours:.1f} h: {late:.1f} h late."})
        elif reason == "budget" and problem.constraints.budget_usd is not None:
            lines.append({"kind": "no", "text": f"{_name(one)} takes {one.hours:.1f} h but costs ${one.usd:,.2f}."})
    unpriced = found.rejected["price_unknown"]
    if unpriced:
        lines.append({"kind": "unknown", "text": f"{unpriced:,} candidates have no price and were left out."})
    return lines[:3]


def faster(ranked: list[Candidate], best: Candidate) -> list[dict[str, Any]]:
    """The fastest option and what its speed costs."""
    known = [one for one in ranked if np.isfinite(one.hours) and one.hours < best.hours]
    if not known:
        return []
    fastest = min(known, key=lambda one: (one.hours, one.total))
    text = f"{_name(fastest)} takes {fastest.hours:.1f} h instead of {best.hours:.1f} h, for ${fastest.total - best.total:,.2f} more."
    return [{"kind": "no", "text": text}]


def explanation(problem: PlanProblem, rank: int, one: Candidate, best: Candidate) -> str:
    """An option's own sentence."""
    free = -one.over_bytes / 2**30
    if rank == 1:
        return f"{OBJECTIVE_WORDS[problem.objective]} of all; {free:.1f} GiB stay below its memory limit."
    if not np.isfinite(one.total) or not np.isfinite(best.total):
        return f"Takes {one.step_seconds:.2f} s a step; {free:.1f} GiB stay below its memory limit."
    more = one.total - best.total
    pace = "" if not np.isfinite(one.hours) else f" and takes {one.hours:.1f} h against {best.hours:.1f} h"
    sign = "more" if more >= 0 else "less"
    return f"Costs ${abs(more):,.2f} {sign} than option 1{pace}."


def _name(one: Candidate) -> str:
    return f"{one.count} × {one.machine.accelerator.name}"
