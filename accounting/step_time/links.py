"""What each link costs: the same step with the link faster or slower, as columns of one more evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from accounting.scenario import Scenario
from accounting.units import GIGA, Floats

BITS = 8
LINKS: Mapping[str, str] = {
    "intra": "intra_bandwidth",
    "inter": "inter_bandwidth",
    "host": "pcie_bandwidth",
}
"""Link -> the machine's column."""
_SPEEDS = np.geomspace(1e5, 1e14, 49)
"""Node rates tried for the point where the network becomes what the step waits for. [byte/s]"""
_BOUND = 2.0
"""Bandwidth-bound: the step takes more than this many times the step with an endless network."""


@dataclass(frozen=True, slots=True)
class LinkCost:
    """Of one link, for one candidate; NaN where the step or the link is unknown."""

    exposed_seconds: float
    """What the step would save were the link endless, its latency kept."""
    half_speed_adds_seconds: float
    """What half its speed would cost."""


@dataclass(frozen=True, slots=True)
class LinkReport:
    links: Mapping[str, LinkCost]
    inter_node_gbps: float
    """The node's present rate, 10^9 bit per second and direction; NaN where unknown."""
    bound_below_gbps: float | None
    """Node rate under which more than half of the step waits for the network; None where nothing crosses nodes."""


_CHANGES: tuple[tuple[str, float], ...] = (
    ("intra_bandwidth", 1.0),
    *((column, factor) for column in LINKS.values() for factor in (np.inf, 0.5)),
)
"""Column and factor of each question but the sweep; the first is the step as it is."""
_TRIES = len(_CHANGES) + len(_SPEEDS)


def with_links(scenario: Scenario) -> Scenario:
    """Every candidate _TRIES times, one after the other: with a link endless or at half speed, then at each rate."""
    count = len(scenario)
    rows = scenario.take(np.repeat(np.arange(count), _TRIES))
    columns = {name: getattr(rows.machine, name).reshape(count, _TRIES).copy() for name in LINKS.values()}
    for place, (name, factor) in enumerate(_CHANGES):
        columns[name][:, place] *= factor
    columns["inter_bandwidth"][:, len(_CHANGES) :] = _SPEEDS
    return replace(
        rows, machine=replace(rows.machine, **{name: values.reshape(-1, 1) for name, values in columns.items()})
    )


def link_report(seconds: Floats, inter_bandwidth: float) -> LinkReport:
    """Exposed time by link, the price of half its speed, and where the network takes over, for one candidate.

    `seconds` are of the step of `with_links`' rows, [(_TRIES,)]; `inter_bandwidth` the node's present rate, byte/s.
    Between two tried rates the step is taken as linear in 1/rate, which it is piece by piece.
    """
    now, asked, swept = seconds[0], seconds[1 : len(_CHANGES)], seconds[len(_CHANGES) :]
    links = {
        name: LinkCost(float(max(now - endless, 0.0)), float(max(half - now, 0.0))) if np.isfinite(now) else _UNKNOWN
        for name, (endless, half) in zip(LINKS, asked.reshape(-1, 2), strict=True)
    }
    return LinkReport(links, inter_bandwidth * BITS / GIGA, _bound_below(swept))


_UNKNOWN = LinkCost(float("nan"), float("nan"))


def _bound_below(seconds: Floats) -> float | None:
    """The rate at which the step takes _BOUND times the step of the fastest rate tried. [10^9 bit/s]"""
    least = seconds[-1]
    if not np.isfinite(seconds).all() or seconds[0] <= _BOUND * least:
        return None
    after = int(np.argmax(seconds <= _BOUND * least))
    slow, fast = 1 / _SPEEDS[after - 1], 1 / _SPEEDS[after]
    share = (_BOUND * least - seconds[after]) / (seconds[after - 1] - seconds[after])
    return float(BITS / GIGA / (fast + share * (slow - fast)))
