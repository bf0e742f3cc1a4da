"""Hours, dollars and energy of a run: Young and Daly's interval, unknown prices, billing in whole hours."""

from __future__ import annotations

import math

import numpy as np
import pytest

from accounting.cost import Interruptions, RunCost, billed_usd, goodput, run_cost
from accounting.scenario import column

NEVER = Interruptions(failures_per_device_hour=0.0)


def _cost(**changes: object) -> RunCost:
    facts: dict[str, object] = {
        "step_seconds": column(2.0, float),
        "tokens_per_step": column(1_000_000),
        "count": column(64),
        "usd_per_device_hour": column(3.0, float),
        "power_watts": column(700.0, float),
        "tokens": 15_000_000_000,
        "interruptions": NEVER,
    }
    return run_cost(**(facts | changes))  # type: ignore[arg-type]


def test_a_run_without_interruptions_is_steps_times_seconds() -> None:
    cost = _cost()
    assert cost.steps[0, 0] == 15_000
    assert cost.hours[0, 0] == pytest.approx(15_000 * 2 / 3600)
    assert cost.usd[0, 0] == pytest.approx(15_000 * 2 / 3600 * 64 * 3)
    assert cost.usd_per_million_tokens[0, 0] == pytest.approx(cost.usd[0, 0] / 15_000)
    assert cost.energy_kilowatt_hours[0, 0] == pytest.approx(15_000 * 2 / 3600 * 64 * 0.7)


def test_a_started_step_is_a_whole_step() -> None:
    assert _cost(tokens=1_000_001).steps[0, 0] == 2


def test_the_interval_is_young_and_dalys() -> None:
    share, interval = goodput(
        column(1024), Interruptions(checkpoint_seconds=60.0, restart_seconds=600.0, failures_per_device_hour=5e-6)
    )
    rate = 5e-6 / 3600 * 1024
    assert interval[0, 0] == pytest.approx(math.sqrt(2 * 60 / rate))
    assert share[0, 0] == pytest.approx(1 - 60 / interval[0, 0] - (interval[0, 0] / 2 + 600) * rate)


def test_no_other_interval_trains_more() -> None:
    share, interval = goodput(column(4096), Interruptions())
    rate = 5e-6 / 3600 * 4096
    for factor in (0.5, 0.8, 1.25, 2.0):
        other = interval * factor
        assert share >= 1 - 60 / other - (other / 2 + 600) * rate


def test_more_devices_and_preemptions_train_a_smaller_share() -> None:
    shares, _ = goodput(column([8, 64, 512, 4096]), Interruptions())
    assert (np.diff(shares.ravel()) < 0).all()
    spot, _ = goodput(column(64), Interruptions(preemptions_per_device_hour=1e-3))
    assert spot[0, 0] < shares[1, 0]


def test_a_cluster_that_fails_faster_than_it_restarts_never_ends() -> None:
    cost = _cost(interruptions=Interruptions(failures_per_device_hour=1.0), count=column(100_000))
    assert cost.goodput[0, 0] == 0
    assert math.isinf(cost.hours[0, 0])


def test_an_unknown_price_is_not_free() -> None:
    cost = _cost(usd_per_device_hour=column(np.nan, float))
    assert math.isnan(cost.usd[0, 0])
    assert math.isnan(cost.usd_per_million_tokens[0, 0])
    assert cost.hours[0, 0] > 0


def test_without_tokens_only_the_rates_are_known() -> None:
    cost = _cost(tokens=None)
    assert math.isnan(cost.hours[0, 0])
    assert cost.usd_per_hour[0, 0] == 192
    assert cost.usd_per_million_tokens[0, 0] == pytest.approx(2 / 3600 * 192)


def test_billing_rounds_up_to_whole_periods() -> None:
    hours = 15_000 * 2 / 3600
    cost = _cost()
    assert billed_usd(cost, 1.0)[0, 0] == pytest.approx(math.ceil(hours) * 192)
    assert cost.usd[0, 0] == pytest.approx(hours * 192)


def test_no_checkpoints_cost_no_time() -> None:
    share, interval = goodput(
        column(64), Interruptions(checkpoint_seconds=0.0, restart_seconds=600.0, failures_per_device_hour=1e-4)
    )
    assert interval[0, 0] == 0
    assert share[0, 0] == pytest.approx(1 - 600 * 1e-4 / 3600 * 64)
