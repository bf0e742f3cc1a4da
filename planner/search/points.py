"""The points of the plot of cost against time."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.search.rank import Ranking

MOST_POINTS = 400


def points(ranking: Ranking, front: list[int], rank_of: dict[int, int]) -> list[dict[str, Any]]:
    """At most 400: frontier, options, then the rest of what was kept, thinned evenly in rank order."""
    on_front = set(front)
    shown = np.array([row in on_front or row in rank_of for row in ranking.order.tolist()], dtype=np.bool_)
    first, rest = ranking.order[shown], ranking.order[~shown]
    room = max(MOST_POINTS - len(first), 0)
    step = max(-(-len(rest) // room), 1) if room else len(rest) + 1
    return [_point(ranking, int(row), on_front, rank_of) for row in (*first, *rest[::step])]


def _point(ranking: Ranking, row: int, on_front: set[int], rank_of: dict[int, int]) -> dict[str, Any]:
    one = ranking.candidate(row)
    hours, usd = one.hours, one.usd
    return {
        "hours": hours if np.isfinite(hours) else None,
        "usd": usd if np.isfinite(usd) else None,
        "accelerator": one.machine.accelerator.slug,
        "count": one.count,
        "frontier": row in on_front,
        "rank": rank_of.get(row),
        "fits": True,
    }
