"""Traffic and time by link: sums, what an endless or a slower link changes, where the network takes over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accounting.estimate import explained
from accounting.facts.precisions import PRESETS
from accounting.scenario import Offload, Scenario
from accounting.step_time.links import LinkReport, link_report
from accounting.vocabulary import Engine, Place
from tests.accounting.step_time.scenes import MIXTURE, NODE, scene, seconds, slower, timed

MEGATRON: dict[str, Any] = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master-fp32grad"]}


def report_of(scenario: Scenario, index: int = 0) -> LinkReport:
    found = explained([scenario.take(slice(row, row + 1)) for row in range(len(scenario))])
    return link_report(found.links[index], float(found.scenario.machine.inter_bandwidth[index, 0]))


def test_one_node_sends_nothing_across() -> None:
    report = report_of(scene(dp_shard=8))
    assert timed(dp_shard=8).inter_bytes[0, 0] == 0
    assert report.bound_below_gbps is None
    assert report.links["inter"].exposed_seconds == 0
    assert report.links["inter"].half_speed_adds_seconds == 0
    assert report.links["intra"].half_speed_adds_seconds > 0


def test_a_ring_crosses_nodes_once_in_as_many_hops_as_a_node_has_members() -> None:
    timing = timed(dp_shard=64)
    sent = sum(int(moved[0, 0]) for moved in timing.traffic_bytes.values())
    assert timing.inter_bytes[0, 0] == pytest.approx(sent / 8, rel=1e-6)
    strided = timed(tp=8, dp_shard=8, recipe=MEGATRON)
    shards = sum(int(strided.traffic_bytes[name][0, 0]) for name in ("all_gather", "reduce_scatter"))
    assert 0 < strided.inter_bytes[0, 0] < shards


@pytest.mark.parametrize("layout", [{"dp_shard": 64}, {"tp": 8, "dp_shard": 8}, {"tp": 4, "pp": 4, "dp_shard": 4}])
def test_what_crosses_is_part_of_what_is_sent(layout: dict[str, int]) -> None:
    for model in (None, MIXTURE):
        timing = timed(model, **layout, ep=1) if model else timed(**layout, recipe=MEGATRON)
        sent = sum(int(moved[0, 0]) for moved in timing.traffic_bytes.values())
        assert 0 < timing.inter_bytes[0, 0] <= sent


def test_the_step_doubles_at_the_rate_that_binds_it() -> None:
    layout = {"dp_shard": 64, "micro_batch_size": 2}
    bound = report_of(scene(**layout)).bound_below_gbps
    assert bound is not None
    there, endless = (
        seconds(node=slower(NODE, inter_bytes_per_second_total=rate), **layout) for rate in (bound * 1e9 / 8, 1e15)
    )
    assert there == pytest.approx(2 * endless, rel=0.01)


def test_the_binding_rate_needs_no_knowledge_of_the_network() -> None:
    layout = {"dp_shard": 64, "micro_batch_size": 2}
    known = report_of(scene(**layout))
    unknown = report_of(scene(node=slower(NODE, inter_bytes_per_second_total=None), **layout))
    assert unknown.bound_below_gbps == known.bound_below_gbps
    assert np.isnan(unknown.inter_node_gbps)
    assert np.isnan(unknown.links["inter"].exposed_seconds)


def test_half_speed_costs_what_a_node_of_half_the_speed_takes() -> None:
    layout = {"dp_shard": 32, "dp_replicate": 2}
    slow = seconds(node=slower(NODE, inter_bytes_per_second_total=NODE.inter_bytes_per_second_total / 2), **layout)
    report = report_of(scene(**layout))
    assert report.links["inter"].half_speed_adds_seconds == pytest.approx(slow - seconds(**layout), rel=1e-9)


def test_an_offloaded_optimizer_is_traffic_of_the_host() -> None:
    recipe = {"engine": Engine.DEEPSPEED, "zero_stage": 2, "precision": PRESETS["bf16-master"]}
    away = recipe | {"offload": Offload(optimizer=Place.CPU)}
    assert timed(dp_shard=8, recipe=recipe).host_bytes[0, 0] == 0
    assert timed(dp_shard=8, recipe=away).host_bytes[0, 0] > 0
    assert report_of(scene(dp_shard=8, recipe=away)).links["host"].exposed_seconds > 0


def test_every_candidate_is_asked_alone() -> None:
    many = scene(dp_shard=[8, 64, 32], micro_batch_size=[1, 2, 4])
    for index, layout in enumerate(((8, 1), (64, 2), (32, 4))):
        alone = report_of(scene(dp_shard=layout[0], micro_batch_size=layout[1]))
        assert report_of(many, index) == alone
