"""What pages and terminal say of traffic, links and the whole job is what the answer says, and true of it."""

from __future__ import annotations

from typing import Any

import pytest

from accounting import estimate
from planner.requests import read_estimate
from planner.text.estimate import render_estimate
from planner.web.explained import estimate_view
from planner.web.figures import csv_of, traffic_rows
from planner.web.run import energy, run_facts
from planner.web.traffic import binding, gigabits, traffic
from planner.web.words import billing
from tests.planner.requests.samples import CONTEXT, put

TWO_NODES: dict[str, Any] = {
    "model": "llama-3-8b",
    "hardware": {"accelerator": "h100-sxm5-80gb", "count": 16, "node_type": "aws-p5-48xlarge"},
    "batch": {"sequence_length": 8192, "global_batch_size": 64},
}
NAMES = {"h100-sxm5-80gb": "H100"}
OFFER = {
    "provider": "aws",
    "region": "us-east-1",
    "instance": "box",
    "pricing": "spot",
    "commitment": "",
    "usd_per_hour": 24.0,
    "price_date": "2026-07-20",
    "billing_period_seconds": 1,
    "billing_minimum_seconds": 60,
}


def answered(*changes: tuple[str, Any]) -> dict[str, Any]:
    return estimate(read_estimate(put(TWO_NODES, *changes), CONTEXT)).row(0)


@pytest.mark.parametrize(
    "change",
    [
        (),
        (("/sharding", {"engine": "ddp"}),),
        (("/sharding", {"engine": "megatron"}), ("/parallelism", {"tp": 8, "pp": 2}), ("/precision", "bf16-master")),
        (("/parallelism", {"dp_replicate": 2, "dp_shard": 8}),),
    ],
)
def test_the_rate_that_is_named_is_the_one_where_the_step_doubles(change: tuple[tuple[str, Any], ...]) -> None:
    answer = answered(*change)
    bound = answer["communication"]["bound_below_gbps"]
    endless = answered(*change, ("/options/inter_node_gbps", 1e6))["time"]["step_seconds"]
    above, below = (answered(*change, ("/options/inter_node_gbps", bound * factor)) for factor in (1.1, 0.9))
    assert above["time"]["step_seconds"] < 2 * endless < below["time"]["step_seconds"]
    assert binding(above["communication"]).startswith("Not bound by the network")
    assert binding(below["communication"]).startswith("Bandwidth-bound")
    assert gigabits(bound) in binding(answer["communication"])


def test_page_terminal_and_file_say_the_same() -> None:
    answer = answered()
    view = estimate_view("memory", answer, 0.0, 16)
    assert view is not None and view.traffic is not None
    printed = render_estimate(answer, TWO_NODES, NAMES).replace("\u00a0", " ")
    assert view.traffic.says.replace("\u00a0", " ") in printed
    assert view.traffic.total.replace("\u00a0", " ") in printed
    assert "PRICE $110.08 an hour: aws p5.48xlarge us-east-1 on-demand, of 2026-07-20, billed by the second" in printed
    rows = csv_of(traffic_rows({}, answer)).splitlines()
    sent = answer["communication"]
    assert f"collective,all_gather,{sent['by_collective']['all_gather']},," in rows
    assert any(row.startswith(f"link,inter,{sent['by_link']['inter']['bytes_per_step_per_device']},") for row in rows)


def test_one_device_sends_nothing_and_one_node_crosses_nothing() -> None:
    assert traffic(answered(("/hardware/count", 1))["communication"]) is None
    assert binding(answered(("/hardware/count", 8))["communication"]) == "Nothing crosses nodes: no network binds."


def test_a_model_without_a_shape_has_no_traffic_to_show() -> None:
    assert traffic(answered(("/model", {"parameters": 10**9}))["communication"]) is None
    assert traffic(None) is None


def test_an_unknown_rate_is_said() -> None:
    known = {"by_link": {"inter": {"bytes_per_step_per_device": 1}}, "bound_below_gbps": 80.0, "inter_node_gbps": None}
    assert (
        binding(known)
        == "The network's rate is not known; below 80.0\u00a0Gb/s a node the step waits for it half its time."
    )
    assert binding(known | {"bound_below_gbps": None}).startswith("The step never waits")


def test_a_missing_price_is_not_a_number() -> None:
    answer = answered(("/hardware/accelerator", "a100-pcie-40gb"), ("/hardware/node_type", None))
    assert answer["cost"]["usd_per_hour"] is None
    printed = render_estimate(answer, TWO_NODES, NAMES)
    assert "PRICE not known (price_unknown)" in printed
    assert "$0" not in printed


def test_the_whole_job_in_facts() -> None:
    run = {
        "goodput": 0.987,
        "checkpoint_interval_seconds": 7200.0,
        "billed_hours": 10.0,
        "usd_per_million_tokens": 0.25,
        "energy_kwh": 1234.0,
    }
    option = {"run": run, "offer": OFFER, "hours": 9.99, "usd": 240.0}
    facts = {fact.name: fact.value.replace("\u00a0", " ") for fact in run_facts(option)}
    assert facts == {
        "Time that trains": "98.7 %",
        "Checkpoint every": "2.0 h",
        "Paid hours": "10.0 h",
        "Billed": "by the second, at least 60 s",
        "Price": "spot, us-east-1, of 2026-07-20",
        "Cost per million tokens": "$0.25",
        "Energy of the GPUs, at most": "1.23 MWh",
    }
    assert run_facts({}) == ()
    unpriced = {fact.name: fact.value for fact in run_facts(option | {"offer": None, "usd": None})}
    assert unpriced["Price"] == "no price"
    never = {fact.name: fact.value for fact in run_facts({"run": run | {"checkpoint_interval_seconds": None}})}
    assert never["Checkpoint every"] == "never: nothing fails"
    assert energy(None) == "not known"


@pytest.mark.parametrize(
    ("period", "minimum", "kind", "said"),
    [
        (3600, None, "spot", "by the hour"),
        (600, None, "spot", "in steps of 600 s"),
        (60, 3600, "spot", "by the minute, at least 3,600 s"),
        (None, None, "spot", "by the second; how usage is rounded up is not known"),
        (None, None, "internal", "own devices, by the second"),
        (None, None, "reserved", "by the second; a commitment is paid for its term"),
    ],
)
def test_billing_in_words(period: int | None, minimum: int | None, kind: str, said: str) -> None:
    terms = {"billing_period_seconds": period, "billing_minimum_seconds": minimum, "pricing": kind}
    assert billing(OFFER | terms).replace("\u00a0", " ") == said
