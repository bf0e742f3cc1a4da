"""Collectives against measured ones (NCCL, one node) and against the shape of the hierarchy."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.facts.calibration import CALIBRATION
from accounting.partition import partition_of
from accounting.scenario import column
from accounting.step_time.clock import Clock, clock_of
from accounting.step_time.network import Collective, collective_seconds, group_of, wire_bytes
from tests.accounting.step_time.scenes import DENSE, NODE, scene, slower


def _clock(**changes: object) -> Clock:
    scenario = scene(node=slower(NODE, **changes), dp_shard=64)
    assert DENSE.architecture is not None
    return clock_of(scenario, partition_of(scenario), DENSE.architecture, CALIBRATION)


@pytest.mark.parametrize(
    ("collective", "members", "size", "measured_microseconds"),
    [
        (Collective.ALL_GATHER, 8, 536870912, 1401.5),
        (Collective.ALL_GATHER, 2, 536870912, 1038.6),
        (Collective.REDUCE_SCATTER, 8, 536870912, 1399.4),
        (Collective.ALL_REDUCE, 8, 536870912, 2111.1),
        (Collective.ALL_TO_ALL, 8, 536870912, 1490.4),
        (Collective.ALL_GATHER, 8, 512, 10.14),
        (Collective.REDUCE_SCATTER, 4, 512, 7.17),
    ],
)
def test_h100_node_within_a_fifth_of_the_measured_run(
    collective: Collective, members: int, size: int, measured_microseconds: float
) -> None:
    """aiconfigurator 095f58a nccl_perf, h100_sxm."""
    clock = _clock()
    seconds = collective_seconds(clock, collective, column(size, float), group_of(clock, column(members), 1))
    assert seconds[0, 0] * 1e6 == pytest.approx(measured_microseconds, rel=0.2)


def test_a_group_of_one_sends_nothing() -> None:
    clock = _clock()
    group = group_of(clock, column(1), 1)
    for collective in Collective:
        assert collective_seconds(clock, collective, column(1e9, float), group)[0, 0] == 0
        assert wire_bytes(collective, column(1e9, float), group)[0, 0] == 0


def test_strided_groups_share_the_nics_of_their_node() -> None:
    clock = _clock()
    size = column(1e9, float)
    together = collective_seconds(clock, Collective.ALL_GATHER, size, group_of(clock, column(16), 1))
    strided = collective_seconds(clock, Collective.ALL_GATHER, size, group_of(clock, column(16), 8))
    assert strided[0, 0] > 6 * together[0, 0]


def test_a_rack_of_fast_links_spans_nodes() -> None:
    clock = _clock(scaleup_domain_size=64)
    inside = group_of(clock, column(64), 1)
    assert inside.islands[0, 0] == 1
    assert group_of(_clock(), column(64), 1).islands[0, 0] == 8


def test_an_unknown_network_matters_only_where_it_is_used() -> None:
    clock = _clock(inter_bytes_per_second_total=None)
    size = column(1e9, float)
    assert np.isfinite(collective_seconds(clock, Collective.ALL_REDUCE, size, group_of(clock, column(8), 1)))
    assert np.isnan(collective_seconds(clock, Collective.ALL_REDUCE, size, group_of(clock, column(16), 1)))


def test_bridged_pairs_talk_over_pcie_to_the_rest_of_their_node() -> None:
    clock = _clock(scaleup_domain_size=2)
    size = column(1e9, float)
    pair = collective_seconds(clock, Collective.ALL_GATHER, size, group_of(clock, column(2), 1))
    four = collective_seconds(clock, Collective.ALL_GATHER, size, group_of(clock, column(4), 1))
    assert four[0, 0] > 4 * pair[0, 0]
