"""What each link costs: the same step with the link faster or slower, as columns of one more evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accounting.facts.calibration import CALIBRATION, Calibration
from accounting.partition import partition_of
from accounting.scenario import Machine, Scenario
from accounting.step_time.step import step_time
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


def link_report(scenario: Scenario, index: int = 0, calibration: Calibration = CALIBRATION) -> LinkReport:
    """Exposed time by link, the price of half its speed, and where the network takes over, for one candidate.

    One evaluation of `step_time` over as many rows as there are questions. Between two tried rates the step is taken as
    linear in 1/rate, which it is piece by piece.
    """
    here = scenario.take(np.asarray([index]))
    changes: list[tuple[str, float]] = [("intra_bandwidth", 1.0)]
    changes += [(column, factor) for column in LINKS.values() for factor in (np.inf, 0.5)]
    inter = float(here.machine.inter_bandwidth[0, 0])
    seconds = _evaluated(here, changes, _SPEEDS, calibration)
    now, asked, swept = seconds[0], seconds[1 : len(changes)], seconds[len(changes) :]
    links = {
        name: LinkCost(float(max(now - endless, 0.0)), float(max(half - now, 0.0))) if np.isfinite(now) else _UNKNOWN
        for name, (endless, half) in zip(LINKS, asked.reshape(-1, 2), strict=True)
    }
    return LinkReport(links, inter * BITS / GIGA, _bound_below(swept))


_UNKNOWN = LinkCost(float("nan"), float("nan"))


def _evaluated(
    here: Scenario, changes: list[tuple[str, float]], speeds: NDArray[np.float64], calibration: Calibration
) -> Floats:
    """Seconds of the step under each change of one column, then at each node rate. [second, (rows,)]"""
    rows = here.take(np.zeros(len(changes) + len(speeds), dtype=np.int64))
    columns = {name: getattr(rows.machine, name).copy() for name in LINKS.values()}
    for row, (name, factor) in enumerate(changes):
        columns[name][row] *= factor
    columns["inter_bandwidth"][len(changes) :, 0] = speeds
    machine: Machine = replace(rows.machine, **columns)
    tried = replace(rows, machine=machine)
    return step_time(tried, partition_of(tried), calibration).step_seconds[:, 0]


def _bound_below(seconds: Floats) -> float | None:
    """The rate at which the step takes _BOUND times the step of the fastest rate tried. [10^9 bit/s]"""
    least = seconds[-1]
    if not np.isfinite(seconds).all() or seconds[0] <= _BOUND * least:
        return None
    after = int(np.argmax(seconds <= _BOUND * least))
    slow, fast = 1 / _SPEEDS[after - 1], 1 / _SPEEDS[after]
    share = (_BOUND * least - seconds[after]) / (seconds[after - 1] - seconds[after])
    return float(BITS / GIGA / (fast + share * (slow - fast)))
