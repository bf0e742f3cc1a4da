"""What an answer promises, held against planning again: limits bind and are named, ways out work, what-ifs are so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting.catalog import NodeType
from accounting.constraints import RULES
from planner.requests import RequestContext, read_plan
from planner.search import search
from planner.search.problem import PlanProblem, Pool
from planner.search.scan import scan
from planner.web.changed import plan_with
from tests.planner.requests.samples import CONTEXT, put
from tests.planner.search.problems import SMALL, problem_of, wider_problem

SEVERAL = ("/hardware/accelerators", ["h100-sxm5-80gb", "a100-sxm4-80gb"])
FOUND_BESIDE_RULES = {
    "memory", "memory_unknown", "host_memory", "slower", "time_unknown", "throughput", "deadline", "budget",
    "price_unknown", "price_stale", "batch", "engine_unsupported", "optimizer_unsupported", "scale_up_domain",
}  # fmt: skip


def answer_of(problem: PlanProblem) -> dict[str, Any]:
    return search(problem, lambda done, total: None, lambda: False)


def asked(*changes: tuple[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the small request with some members changed, its answer)."""
    request = put(SMALL, *changes)
    return request, answer_of(read_plan(request, CONTEXT))


@pytest.fixture(scope="module")
def free() -> dict[str, Any]:
    return asked(SEVERAL)[1]


def test_a_deadline_binds_is_named_and_says_what_it_costs(free: dict[str, Any]) -> None:
    best = free["recommendation"]
    limit = best["hours"] * 0.9
    bound = asked(SEVERAL, ("/constraints", {"deadline_hours": limit}))[1]
    assert all(option["hours"] <= limit for option in bound["options"])
    assert bound["rejections"]["deadline"] > 0
    assert bound["why"][1].startswith(f"The deadline of {limit:g} h binds")
    assert bound["recommendation"]["usd"] > best["usd"]
    misses = [row for row in bound["nearest_misses"] if row["reason"] == "deadline"]
    assert misses[0]["misses_by_hours"] == pytest.approx(misses[0]["hours"] - limit)
    assert any("h late" in row["text"] for row in bound["why_not"])


def test_a_budget_binds_and_is_named(free: dict[str, Any]) -> None:
    quick = asked(SEVERAL, ("/objective", "time"))[1]["recommendation"]
    limit = quick["usd"] * 0.95
    bound = asked(SEVERAL, ("/objective", "time"), ("/constraints", {"budget_usd": limit}))[1]
    assert all(option["usd"] <= limit for option in bound["options"])
    assert bound["rejections"]["budget"] > 0
    assert bound["why"][1].startswith("The budget of ")
    assert bound["recommendation"]["hours"] >= quick["hours"]
    assert any("over the budget" in row["text"] for row in bound["why_not"])


def test_a_least_throughput_binds_and_is_named(free: dict[str, Any]) -> None:
    limit = free["recommendation"]["time"]["tokens_per_second"] * 1.1
    bound = asked(SEVERAL, ("/constraints", {"min_tokens_per_second": limit}))[1]
    assert bound["recommendation"]["time"]["tokens_per_second"] >= limit
    assert bound["why"][1].startswith("The least throughput of ")
    misses = [row for row in bound["nearest_misses"] if row["reason"] == "throughput"]
    assert misses
    assert all(row["misses_by_tokens_per_second"] > 0 for row in misses)
    assert any("tokens/s:" in row["text"] for row in bound["why_not"])


def test_the_headroom_binds_every_option(free: dict[str, Any]) -> None:
    best = free["recommendation"]["memory"]
    share = 1 - best["device_bytes_band"][1] * 0.98 / best["capacity_bytes"]
    bound = asked(SEVERAL, ("/constraints", {"memory_headroom": round(share, 3)}))[1]
    assert bound["rejections"]["memory"] > free["rejections"]["memory"]
    for option in bound["options"]:
        memory = option["memory"]
        assert memory["device_bytes_band"][1] <= memory["capacity_bytes"] * (1 - round(share, 3)) + 1
    assert bound["recommendation"]["estimate"] != free["recommendation"]["estimate"]
    assert any("over the limit of each device" in row["text"] for row in bound["nearest_misses"])


def test_the_most_devices_bind_and_are_named() -> None:
    few = asked(("/objective", "time"), ("/hardware/max_count", 8))[1]
    more = asked(("/objective", "time"), ("/hardware/max_count", 16))[1]
    assert few["recommendation"]["estimate"]["hardware"]["count"] == 8
    assert more["recommendation"]["hours"] < few["recommendation"]["hours"]
    assert few["why"][1].startswith("The limit of 8 devices binds")


@pytest.mark.parametrize(
    ("pointer", "allowed", "member"),
    [
        ("/engines", ["deepspeed"], lambda row: row["sharding"]["engine"]),
        ("/optimizers", ["adamw", "sgd"], lambda row: row["optimizer"]["name"] if isinstance(row["optimizer"], dict)
         else row["optimizer"]),
        ("/hardware/pricing", ["spot"], lambda row: row["hardware"]["offer"]["pricing"]),
        ("/hardware/providers", ["aws"], lambda row: row["hardware"]["offer"]["provider"]),
    ],
)  # fmt: skip
def test_only_what_is_allowed_is_proposed(pointer: str, allowed: list[str], member: Callable[[Any], str]) -> None:
    found = asked((pointer, allowed), ("/options", 100))[1]
    rows = [*found["options"], *found["frontier"], *found["nearest_misses"]]
    assert rows
    assert {member(row["estimate"]) for row in rows} <= set(allowed)


def test_states_below_fp32_are_proposed_only_where_they_are_allowed() -> None:
    # An H100 and a model of 8 B: eight-bit states would be cheaper, and are only named as a change.
    plain = asked(("/hardware/max_count", 8))[1]
    assert {json.dumps(row["estimate"]["optimizer"]) for row in plain["options"]} <= {'"adamw"', '{"name": "adamw"}'}
    assert "AdamW 8-bit" in {row["change"] for row in plain["what_if"]}
    allowed = asked(("/hardware/max_count", 2), ("/optimizers", ["adamw", "adamw-8bit-torchao"]))[1]
    assert any("8bit" in json.dumps(row["estimate"]["optimizer"]) for row in allowed["options"])


def on_pool(count: int, price: float | None, **request: Any) -> dict[str, Any]:
    catalog = CONTEXT.catalog
    pool = Pool(
        slug="lab",
        accelerator=catalog.accelerators["h100-sxm5-80gb"],
        node_type=catalog.node_types["aws-p5-48xlarge"],
        count=count,
        usd_per_device_hour=price,
    )
    context = RequestContext(catalog=catalog, find_model=CONTEXT.find_model, pools={"lab": pool})
    body = put(SMALL, ("/hardware", {"pool": "lab", "max_count": 64}), *((f"/{k}", v) for k, v in request.items()))
    return answer_of(read_plan(body, context))


def test_a_pool_gives_out_no_more_than_it_has_at_its_own_price() -> None:
    found = on_pool(6, 1.5)
    counts = {row["estimate"]["hardware"]["count"] for row in found["options"]}
    assert max(counts) <= 6
    for row in found["options"]:
        devices = row["estimate"]["hardware"]["count"]
        assert row["usd_per_hour"] == pytest.approx(1.5 * devices)
        assert row["usd"] == pytest.approx(row["hours"] * 1.5 * devices)
        assert row["offer"]["pricing"] == "internal"
    small = on_pool(1, 1.5)
    assert small["recommendation"] is None
    assert any("in the pool" in row["change"] for row in small["what_if"])


LATE = (SEVERAL, ("/constraints", {"deadline_hours": 0.5}))
DEAR = (SEVERAL, ("/constraints", {"budget_usd": 1}))
WEAK = (SEVERAL, ("/constraints", {"min_tokens_per_second": 10**7}))
BIG = (("/hardware", {"accelerators": ["a10g"], "pricing": ["on-demand"], "max_count": 1}),)


@pytest.mark.parametrize("changes", [LATE, DEAR, WEAK, BIG], ids=["late", "dear", "weak", "big"])
def test_every_way_out_works_when_it_is_planned(changes: tuple[tuple[str, Any], ...]) -> None:
    request, found = asked(*changes)
    assert found["recommendation"] is None
    assert found["nearest_misses"]
    assert found["what_if"]
    for row in found["what_if"]:
        again = answer_of(read_plan(plan_with(request, row), CONTEXT))
        assert again["recommendation"] is not None, row["change"]
        assert again["recommendation"]["usd"] <= row["usd"] * (1 + 1e-9), row["change"]


@pytest.mark.parametrize(
    ("changes", "member", "smaller"),
    [(LATE, "deadline_hours", 0.99), (DEAR, "budget_usd", 0.99), (WEAK, "min_tokens_per_second", 1.01)],
    ids=["late", "dear", "weak"],
)
def test_no_smaller_move_of_a_limit_would_do(changes: tuple[tuple[str, Any], ...], member: str, smaller: float) -> None:
    request, found = asked(*changes)
    starts = {"deadline_hours": "a deadline", "budget_usd": "a budget", "min_tokens_per_second": "at least"}
    row = next(row for row in found["what_if"] if row["change"].startswith(starts[member]))
    wanted = plan_with(request, row)["constraints"]
    nearly = {
        **request,
        "constraints": {**wanted, member: wanted[member] * smaller - (member == "deadline_hours") * 0.1},
    }
    assert answer_of(read_plan(nearly, CONTEXT))["recommendation"] is None


def test_a_limit_is_moved_to_where_all_the_others_hold(free: dict[str, Any]) -> None:
    # Faster than the cheapest and no dearer: each limit alone can be met, the two together cannot.
    best = free["recommendation"]
    limits = {"deadline_hours": best["hours"] * 0.9, "budget_usd": best["usd"] * 1.0001}
    request, found = asked(SEVERAL, ("/constraints", limits))
    assert found["recommendation"] is None
    moved = [row for row in found["what_if"] if row["change"].startswith(("a deadline", "a budget"))]
    assert moved
    for row in moved:
        again = answer_of(read_plan(plan_with(request, row), CONTEXT))
        assert again["recommendation"] is not None, row["change"]


def pinned(best: dict[str, Any], **workload: Any) -> dict[str, Any]:
    """The request that leaves only the layout, place and kind of price of an option."""
    estimate = best["estimate"]
    degrees, offer = estimate["parallelism"], estimate["hardware"]["offer"]
    count = estimate["hardware"]["count"]
    request = put(
        SMALL,
        ("/hardware/accelerators", [estimate["hardware"]["accelerator"]]),
        ("/hardware/providers", [offer["provider"]]),
        ("/hardware/regions", [offer["region"]]),
        ("/hardware/counts", [count]),
        ("/search", {axis: [degrees[axis]] for axis in ("tp", "pp", "cp", "ep")}),
        ("/search/zero_stages", [estimate["sharding"]["zero_stage"]]),
        ("/search/micro_batch_sizes", [estimate["batch"]["micro_batch_size"]]),
        ("/search/recompute", [estimate["recompute"]]),
    )
    return {**request, "workload": {**request["workload"], **workload}}


def difference(found: dict[str, Any], change: str) -> dict[str, Any]:
    return next(row for row in found["what_if"] if row["change"] == change)


@pytest.mark.parametrize(("change", "factor"), [("Price + 20 %", 1.2), ("Price \u2212 20 %", 0.8)])
def test_a_price_swing_is_what_planning_again_finds(free: dict[str, Any], change: str, factor: float) -> None:
    best, row = free["recommendation"], difference(free, change)
    problem = problem_of(SEVERAL)
    place = best["estimate"]["hardware"]["offer"]
    names = {"pricing": "pricing_kind"}

    def swung(offer: Any) -> Any:
        mine = all(getattr(offer, names.get(name, name)) == value for name, value in place.items())
        return replace(offer, usd_per_hour=offer.usd_per_hour * factor) if mine else offer

    again = answer_of(replace(problem, offers=tuple(map(swung, problem.offers))))
    found = again["recommendation"]
    stays = found["estimate"]["hardware"]["offer"] == place
    assert row["still_best"] is stays
    if stays:
        assert found["usd"] - best["usd"] == pytest.approx(row["usd"])


@pytest.mark.parametrize("least", [1, 16])
def test_links_at_half_speed_are_what_planning_again_finds(least: int) -> None:
    found = asked(SEVERAL, ("/hardware/min_count", least))[1]
    best, row = found["recommendation"], difference(found, "Links at half speed")
    problem = read_plan(pinned(best), CONTEXT)

    def halved(node: NodeType | None) -> NodeType | None:
        if node is None:
            return None
        across = best["estimate"]["hardware"]["count"] > node.accelerator_count
        name = "inter_bytes_per_second_total" if across else "intra_bytes_per_second"
        assert getattr(node, name) is not None
        return replace(node, **{name: getattr(node, name) / 2})

    again = answer_of(replace(problem, offer_nodes=tuple(map(halved, problem.offer_nodes))))["recommendation"]
    assert again["estimate"] == best["estimate"]
    assert again["hours"] - best["hours"] == pytest.approx(row["hours"])
    assert again["usd"] - best["usd"] == pytest.approx(row["usd"])


def test_a_sequence_twice_as_long_is_what_planning_again_finds(free: dict[str, Any]) -> None:
    best, row = free["recommendation"], difference(free, "Sequence \u00d7 2")
    found = answer_of(read_plan(pinned(best, sequence_length=2 * 4096), CONTEXT))
    rows = found["options"] or found["nearest_misses"]
    again = rows[0]
    assert again["device_bytes"] - best["device_bytes"] == row["memory_bytes"]
    assert bool(found["options"]) is bool(row["fits"])
    if row["fits"]:
        assert again["estimate"] == row["estimate"]
        assert again["hours"] - best["hours"] == pytest.approx(row["hours"])
        assert again["usd"] - best["usd"] == pytest.approx(row["usd"])


@pytest.mark.parametrize("seed", range(6))
def test_every_candidate_is_counted_once_under_a_named_rule(seed: int) -> None:
    problem = wider_problem(seed)
    pruned = scan(problem, lambda done, total: None, lambda: False)
    whole = scan(problem, lambda done, total: None, lambda: False, prune=False)
    named = {rule.reason for rule in RULES} | FOUND_BESIDE_RULES
    for found in (pruned, whole):
        assert sum(found.rejected.values()) + found.feasible_count == found.candidates
        assert set(found.rejected) <= named
        assert found.spared <= sum(found.rejected.values())
    assert (pruned.candidates, pruned.fitting) == (whole.candidates, whole.fitting)
    assert whole.spared == 0


@pytest.mark.parametrize("seed", [10, 12, 13])
def test_the_frontier_is_that_of_every_feasible_candidate(seed: int) -> None:
    problem = replace(wider_problem(seed), objective="cost")
    found = answer_of(problem)
    front = [(row["hours"], row["usd"]) for row in found["frontier"]]
    whole = scan(problem, lambda done, total: None, lambda: False, prune=False)
    hours = np.concatenate([group.hours for group in whole.feasible])
    usd = np.concatenate([group.usd for group in whole.feasible])
    for one_hours, one_usd in front:
        assert not ((hours <= one_hours) & (usd <= one_usd) & ((hours < one_hours) | (usd < one_usd))).any()
    for one_hours, one_usd in zip(hours.tolist(), usd.tolist(), strict=True):
        assert any(h <= one_hours and u <= one_usd for h, u in front)
    best = found["recommendation"]
    assert (best["hours"], best["usd"]) in front


def test_an_option_says_how_sure_it_is(free: dict[str, Any]) -> None:
    for option in free["options"]:
        memory = option["memory"]
        low, high = memory["device_bytes_band"]
        assert low <= option["device_bytes"] <= high <= memory["capacity_bytes"] * 0.95
        assert memory["evidence"]["range"]
        assert option["hours_band"][0] < option["hours"] < option["hours_band"][1]
        assert option["usd_band"][0] <= option["usd"] <= option["usd_band"][1]
