"""Hours, dollars and energy of a run: Young and Daly's interval, unknown prices, billing in whole hours."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.catalog import Offer
from accounting.cost import Billing, Interruptions, RunCost, billed, billed_hours, billing_of, goodput, run_cost
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


def _offer(period: int | None, minimum: int | None) -> Offer:
    return Offer(
        provider="one",
        region="here",
        instance="box",
        node_type=None,
        accelerator="card",
        accelerator_count=8,
        pricing_kind="on-demand",
        commitment="",
        usd_per_hour=24.0,
        price_date=None,
        date_precision="undated",
        price_not_before=None,
        price_not_after=None,
        source="a test",
        billing_period_seconds=period,
        billing_minimum_seconds=minimum,
        billing_source="a test",
    )


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


@pytest.mark.parametrize(
    ("minutes", "period", "minimum", "paid_minutes"),
    [
        (61, 3600, None, 120),
        (60, 3600, None, 60),
        (61, 60, None, 61),
        (60.5, 60, None, 61),
        (0.5, 1, 60, 1),
        (0.5, 3600, None, 60),
        (61, 1, 60, 61),
        (61, None, None, 61),
        (59, 600, 3600, 60),
        (61, 600, 3600, 70),
    ],
)
def test_whole_periods_are_billed(minutes: float, period: int | None, minimum: int | None, paid_minutes: float) -> None:
    tokens = 60_000_000
    cost = _cost(tokens=tokens, step_seconds=column(minutes, float))
    index = np.zeros((1, 1), dtype=np.int64)
    paid = billed(cost, billing_of([_offer(period, minimum)], index), tokens)
    assert cost.hours[0, 0] == pytest.approx(minutes / 60)
    assert paid.hours[0, 0] == cost.hours[0, 0]
    assert paid.billed_hours[0, 0] == pytest.approx(paid_minutes / 60, rel=1e-9)
    assert paid.usd[0, 0] == pytest.approx(64 * 3 * paid_minutes / 60, rel=1e-9)
    assert paid.usd_per_million_tokens[0, 0] == pytest.approx(64 * 3 * paid_minutes / 60 / 60, rel=1e-9)


@given(hours=st.floats(1e-6, 1e6), period=st.sampled_from([0, 1, 60, 600, 3600, 86_400]), minimum=st.integers(0, 7200))
def test_what_is_billed_is_never_less_and_grows_with_the_run(hours: float, period: int, minimum: int) -> None:
    run = np.array([[hours], [hours * 1.001], [hours * 1.5]])
    terms = Billing(np.full((3, 1), period / 3600), np.full((3, 1), minimum / 3600))
    paid = billed_hours(run, terms)
    assert (paid >= run * (1 - 1e-9)).all()
    assert (np.diff(paid[:, 0]) >= -1e-9 * paid[:-1, 0]).all()
    assert (paid <= np.maximum(run, minimum / 3600) + period / 3600 + 1e-9).all()


def test_each_candidate_is_billed_by_its_own_offer() -> None:
    index = np.array([[0], [1], [2], [1]])
    terms = billing_of([None, _offer(3600, None), _offer(1, 60)], index)
    assert terms.period.ravel().tolist() == [0, 1, 1 / 3600, 1]
    assert terms.minimum.ravel().tolist() == [0, 0, 1 / 60, 0]


def test_what_is_not_known_is_not_billed() -> None:
    terms = Billing(np.full((1, 1), 1.0), np.zeros((1, 1)))
    assert math.isnan(billed_hours(column(np.nan, float), terms)[0, 0])
    assert math.isinf(billed_hours(column(np.inf, float), terms)[0, 0])
    cost = billed(_cost(tokens=None), terms, None)
    assert math.isnan(cost.usd[0, 0])
    assert cost.usd_per_million_tokens[0, 0] == pytest.approx(2 / 3600 * 192)
    assert math.isnan(billed(_cost(usd_per_device_hour=column(np.nan, float)), terms, 1).usd[0, 0])


def test_no_checkpoints_cost_no_time() -> None:
    share, interval = goodput(
        column(64), Interruptions(checkpoint_seconds=0.0, restart_seconds=600.0, failures_per_device_hour=1e-4)
    )
    assert interval[0, 0] == 0
    assert share[0, 0] == pytest.approx(1 - 600 * 1e-4 / 3600 * 64)
