"""What the search answers: bytes that repeat, numbers that an estimate gives again, counts that add up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from accounting import estimate
from accounting.catalog import Offer
from planner.documents import write_document
from planner.requests import read_estimate
from planner.search import search
from planner.search.problem import PlanProblem
from tests.planner.requests.samples import CONTEXT
from tests.planner.search.problems import problem_of

ROOT = Path(__file__).resolve().parents[3]
TODAY = date(2026, 11, 28)
SEVERAL = ["h100-sxm5-80gb", "a100-sxm4-80gb", "l40s"]


def answer_of(problem: PlanProblem) -> dict[str, Any]:
    return search(problem, lambda done, total: None, lambda: False)


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    problem = problem_of(("/hardware/accelerators", SEVERAL), ("/engines", ["fsdp2", "deepspeed"]))
    return answer_of(replace(problem, as_of=TODAY))


def test_every_option_is_estimated_again_to_the_bit(answer: dict[str, Any]) -> None:
    shown = [*answer["options"], *answer["frontier"], *answer["nearest_misses"]]
    assert len(shown) > 10
    for option in shown:
        again = estimate(read_estimate(json.loads(json.dumps(option["estimate"])), CONTEXT)).row(0)
        assert again["memory"]["device_bytes"] == option["device_bytes"]
        if "time" in option:
            assert again["time"]["step_seconds"] == option["step_seconds"]
            assert {name: again["memory"][name] for name in option["memory"]} == option["memory"]
            assert {name: again["time"][name] for name in option["time"]} == option["time"]


def test_hours_and_dollars_follow_from_the_step(answer: dict[str, Any]) -> None:
    for option in answer["options"]:
        hours = option["hours"]
        low, high = option["hours_band"]
        assert low < hours < high
        run = option["run"]
        assert run["usd_by_the_second"] == pytest.approx(hours * option["usd_per_hour"], rel=1e-12)
        assert option["usd"] == pytest.approx(run["billed_hours"] * option["usd_per_hour"], rel=1e-12)
        assert hours <= run["billed_hours"] < hours + 1 / 60
        assert run["usd_per_million_tokens"] == pytest.approx(option["usd"] / 1000, rel=1e-12)
        bare = run["steps"] * option["step_seconds"] / 3600
        assert run["goodput"] == pytest.approx(bare / hours, rel=1e-12)
        count = option["estimate"]["hardware"]["count"]
        lost = 5e-6 * count / 3600
        assert run["checkpoint_interval_seconds"] == pytest.approx((2 * 60 / lost) ** 0.5)
        watts = CONTEXT.catalog.accelerators[option["estimate"]["hardware"]["accelerator"]].power_watts
        assert watts is not None
        assert run["energy_kwh"] == pytest.approx(hours * count * watts / 1000)
        steps = -(-(10**9) // (16 * 4096))
        # Failures and checkpoints only ever add to the bare steps.
        assert steps * option["step_seconds"] / 3600 <= hours < 1.1 * steps * option["step_seconds"] / 3600


def test_options_are_ranked_one_a_place(answer: dict[str, Any]) -> None:
    options = answer["options"]
    assert [option["rank"] for option in options] == list(range(1, len(options) + 1))
    assert [option["usd"] for option in options] == sorted(option["usd"] for option in options)
    places = [json.dumps([option["offer"], option["estimate"]["hardware"]], sort_keys=True) for option in options]
    assert len(set(places)) == len(places)
    assert answer["recommendation"]["estimate"] == options[0]["estimate"]


def test_nothing_on_the_frontier_is_beaten(answer: dict[str, Any]) -> None:
    front = [(option["hours"], option["usd"]) for option in answer["frontier"]]
    assert front == sorted(front)
    assert [usd for _, usd in front] == sorted((usd for _, usd in front), reverse=True)
    every = [(point["hours"], point["usd"]) for point in answer["points"]]
    for hours, usd in front:
        assert not any(h <= hours and u <= usd and (h, u) != (hours, usd) for h, u in every)
    assert answer["options"][0]["usd"] == front[-1][1]


def test_every_change_is_estimated_again_to_the_bit(answer: dict[str, Any]) -> None:
    best = answer["recommendation"]
    changed = [row for row in answer["what_if"] if row["estimate"] is not None]
    assert {"AdamW 8-bit", "Sequence × 2"} <= {row["change"] for row in changed}
    assert next(row for row in answer["what_if"] if row["change"] == "Links at half speed")["estimate"] is None
    for row in changed:
        again = estimate(read_estimate(json.loads(json.dumps(row["estimate"])), CONTEXT)).row(0)
        assert again["memory"]["device_bytes"] - best["device_bytes"] == row["memory_bytes"], row["change"]


def test_every_candidate_is_feasible_or_counted(answer: dict[str, Any]) -> None:
    counted = answer["search"]
    assert sum(answer["rejections"].values()) + counted["feasible"] == counted["candidates"]
    assert answer["rejections"]["memory"] > 0


def test_a_small_space_counted_by_hand() -> None:
    # Two machines (p5.48xlarge, and p5.4xlarge with one device), 8 devices, fsdp2 at stage 3, three modes of
    # recomputation, tp 1 or 2, micro-batch 1 or 2; all divide 16 sequences evenly.
    fixed = ("/hardware", {"accelerators": ["h100-sxm5-80gb"], "providers": ["aws"], "min_count": 8, "max_count": 8})
    found = answer_of(problem_of(fixed, ("/constraints/memory_headroom", 0)))
    assert found["search"]["candidates"] == 2 * 3 * 2 * 2
    # A machine with one device has no pair of them within its fast link.
    assert found["rejections"]["scale_up_domain"] == 3 * 2
    wide = answer_of(problem_of(fixed, ("/search/tp", [1, 3, 16])))
    # tp 3 does not divide 8 and tp 16 is more: 2 of 3 degrees, for 2 machines, 3 modes and 2 micro-batches.
    assert wide["rejections"]["divisibility"] == 2 * 2 * 3 * 2


def test_a_tensor_group_stays_inside_the_fast_link() -> None:
    fixed = ("/hardware", {"accelerators": ["h100-sxm5-80gb"], "providers": ["aws"], "min_count": 16, "max_count": 16})
    found = answer_of(problem_of(fixed, ("/search/tp", [1, 16])))
    assert found["rejections"]["scale_up_domain"] == 2 * 3 * 2
    assert {option["estimate"]["parallelism"]["tp"] for option in found["options"]} == {1}


def test_the_same_request_gives_the_same_bytes(answer: dict[str, Any]) -> None:
    problem = problem_of(("/hardware/accelerators", SEVERAL[::-1]), ("/engines", ["fsdp2", "deepspeed"]))
    again = answer_of(replace(problem, as_of=TODAY))
    again["search"]["seconds"] = answer["search"]["seconds"]
    assert write_document(again) == write_document(answer)


SCRIPT = """
import django
django.setup()
from planner.documents import write_document
from planner.search import search
from tests.planner.search.problems import problem_of
found = search(problem_of(("/engines", ["fsdp2", "deepspeed"])), lambda done, total: None, lambda: False)
found["search"]["seconds"] = 0
print(write_document(found))
"""


def test_the_bytes_do_not_depend_on_the_hash_seed() -> None:
    texts = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        environment["DJANGO_SETTINGS_MODULE"] = "planner.settings"
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        texts.add(run.stdout)
    assert len(texts) == 1


def repriced(problem: PlanProblem, slug: str, factor: float) -> PlanProblem:
    offers = tuple(
        replace(offer, usd_per_hour=offer.usd_per_hour * factor) if offer.accelerator == slug else offer
        for offer in problem.offers
    )
    return replace(problem, offers=offers)


def winner(answer: dict[str, Any]) -> str:
    return str(answer["recommendation"]["estimate"]["hardware"]["accelerator"])


def test_an_edited_price_changes_the_winner() -> None:
    problem = problem_of(("/hardware/accelerators", SEVERAL))
    before = answer_of(problem)
    first = winner(before)
    other = answer_of(repriced(problem, first, 100.0))
    assert winner(other) != first
    assert any(row["change"] == "Price + 20 %" and row["usd"] > 0 for row in before["what_if"])


def test_the_price_swing_says_whether_the_winner_stays() -> None:
    problem = problem_of(("/hardware/accelerators", ["h100-sxm5-80gb", "a100-sxm4-80gb"]))
    before = answer_of(problem)
    swing = {row["change"]: row["still_best"] for row in before["what_if"]}
    first = winner(before)
    dearer = winner(answer_of(repriced(problem, first, 1.2))) == first
    # All prices of the device rise here; only this one in the answer: it can only be kept less often.
    assert swing["Price \u2212 20 %"] is True
    assert dearer or not swing["Price + 20 %"]


def aged(problem: PlanProblem, days: int | None) -> PlanProblem:
    def moved(offer: Offer) -> Offer:
        return replace(offer, price_date=None if days is None else TODAY - timedelta(days=days))

    return replace(problem, as_of=TODAY, offers=tuple(moved(offer) for offer in problem.offers))


@pytest.mark.parametrize(
    ("days", "said"), [(7, ""), (8, "8 days old"), (181, "refresh it before you rely on it"), (None, "no exact date")]
)
def test_old_prices_are_said_in_words(days: int | None, said: str) -> None:
    found = answer_of(aged(problem_of(), days))
    assert found["options"][0]["offer"]["price_age_days"] == days
    if said:
        assert any(said in text for text in found["warnings"])
    else:
        assert not any("price of" in text for text in found["warnings"])


@pytest.mark.parametrize(("days", "kept"), [(30, True), (31, False), (None, False)])
def test_the_age_limit_keeps_old_and_undated_prices_out(days: int | None, kept: bool) -> None:
    problem = aged(problem_of(("/constraints", {"max_price_age_days": 30})), days)
    found = answer_of(problem)
    assert (found["recommendation"] is not None) is kept
    assert ("price_stale" in found["rejections"]) is not kept
    assert "price_unknown" not in found["rejections"]


def test_kinds_of_price_are_options_of_their_own() -> None:
    found = answer_of(problem_of(("/hardware/pricing", []), ("/options", 100)))
    kinds = {option["offer"]["pricing"] for option in found["options"]}
    assert {"on-demand", "spot"} <= kinds
    assert any("can be taken back" in text for text in found["warnings"])


def test_an_engine_that_cannot_is_counted_not_skipped() -> None:
    found = answer_of(problem_of(("/engines", ["fsdp2", "deepspeed"]), ("/search/offload", ["none", "nvme"])))
    # FSDP reads nothing from NVMe: each of its recipes, machines and counts is a counted candidate.
    assert found["rejections"]["engine_unsupported"] > 0
    nowhere = {option["estimate"]["sharding"]["engine"] for option in found["options"] if option["estimate"]["offload"]}
    assert "fsdp2" not in {
        option["estimate"]["sharding"]["engine"]
        for option in found["options"]
        if option["estimate"]["offload"]["optimizer"] == "nvme"
    }
    assert nowhere


def test_megatron_computes_in_its_own_sixteen_bits() -> None:
    alone = answer_of(problem_of(("/engines", ["megatron"])))
    assert {option["estimate"]["precision"] for option in alone["options"]} == {"bf16-master-fp32grad"}
    assert any("under Megatron bf16-mixed is bf16-master-fp32grad" in text for text in alone["assumptions"])
    both = problem_of(("/engines", ["megatron"]), ("/precisions", ["bf16-mixed", "bf16-master-fp32grad"]))
    assert answer_of(both)["search"]["candidates"] == alone["search"]["candidates"]


def test_megatron_pipelines_interleave_where_it_pays() -> None:
    found = answer_of(
        problem_of(
            ("/engines", ["megatron"]),
            ("/precisions", ["bf16-master-fp32grad"]),
            ("/search", {"pp": [4], "tp": [1], "zero_stages": [1], "recompute": ["none"]}),
            ("/workload/global_batch_tokens", 64 * 4096),
        )
    )
    degrees = found["recommendation"]["estimate"]["parallelism"]
    assert degrees["pp"] == 4
    assert degrees["vpp"] > 1
    assert found["recommendation"]["estimate"]["pipeline"]["schedule"] == "interleaved"


def test_a_deadline_that_nothing_meets_is_said_in_hours() -> None:
    found = answer_of(problem_of(("/constraints", {"deadline_hours": 0.001})))
    miss = found["nearest_misses"][0]
    assert (miss["reason"], miss["misses_by_bytes"]) == ("deadline", None)
    assert miss["misses_by_hours"] == pytest.approx(miss["hours"] - 0.001)
    assert "h late" in miss["text"]
    changes = {row["change"] for row in found["what_if"]}
    assert any(change.startswith("a deadline of") for change in changes)


def test_a_least_throughput_turns_slow_candidates_down() -> None:
    before = answer_of(problem_of())
    pace = before["recommendation"]["time"]["tokens_per_second"]
    after = answer_of(problem_of(("/constraints", {"min_tokens_per_second": pace * 1.5})))
    assert after["rejections"]["throughput"] > 0
    assert all(option["time"]["tokens_per_second"] >= pace * 1.5 for option in after["options"])
    assert after["search"]["feasible"] < before["search"]["feasible"]


def test_what_binds_is_named() -> None:
    fast = answer_of(problem_of())
    assert "bind" in fast["why"][1] or "Memory ruled out" in fast["why"][1]
    late = fast["recommendation"]["hours"] * 0.9
    bound = answer_of(problem_of(("/constraints", {"deadline_hours": late})))
    assert bound["why"][1].startswith("The deadline of")


def test_a_budget_that_nothing_meets_is_said_in_dollars() -> None:
    found = answer_of(problem_of(("/constraints", {"budget_usd": 0.01})))
    miss = found["nearest_misses"][0]
    assert miss["reason"] == "budget"
    assert miss["misses_by_usd"] == pytest.approx(miss["usd"] - 0.01)
    assert "over the budget" in miss["text"]


SEVENTY = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "attention_bias": False,
    "mlp_bias": False,
}


def test_seventy_billion_on_eight_small_cards_names_miss_and_way_out() -> None:
    found = answer_of(
        problem_of(
            ("/model", {"config": SEVENTY}),
            ("/hardware", {"accelerators": ["a10g"], "max_count": 8}),
            ("/search", {}),
            ("/engines", []),
        )
    )
    assert found["recommendation"] is None
    assert found["options"] == found["frontier"] == []
    miss = found["nearest_misses"][0]
    assert miss["reason"] == "memory"
    # Sixteen bytes a parameter over eight cards alone are 137 GB a card.
    assert miss["misses_by_bytes"] > 100e9
    assert "GiB over the limit" in miss["text"]
    ways = found["what_if"]
    assert ways
    assert all(way["fits"] for way in ways)
    assert [way["usd"] for way in ways] == sorted(way["usd"] for way in ways)
    for way in ways:
        again = estimate(read_estimate(way["estimate"], CONTEXT))
        assert bool(again.fits(upper=True)[0, 0])


def test_an_adapter_that_does_not_fit_is_offered_a_smaller_base() -> None:
    found = answer_of(
        problem_of(
            ("/hardware", {"accelerators": ["a10g"], "max_count": 1}),
            ("/workload", {"tokens": 10**7, "sequence_length": 4096, "global_batch_tokens": 16 * 4096}),
            ("/adapter", {"method": "lora", "base_dtype": "bf16"}),
            ("/engines", ["fsdp2", "megatron"]),
            ("/search", {"tp": [1], "pp": [1], "micro_batch_sizes": [1]}),
        )
    )
    assert found["recommendation"] is None
    # No launch file of Megatron trains an adapter: nothing of it is proposed.
    assert found["rejections"]["engine_unsupported"] > 0
    way = next(row for row in found["what_if"] if row["change"].startswith("QLoRA"))
    assert way["estimate"]["adapter"]["base_dtype"] == "nf4"
    assert way["estimate"]["sharding"]["engine"] == "fsdp2"


def test_preemptions_make_spot_slower_and_nothing_else() -> None:
    machines = ("/hardware", {"accelerators": ["h100-sxm5-80gb"], "pricing": ["spot", "on-demand"], "max_count": 8})
    calm = answer_of(problem_of(machines, ("/options", 100)))
    often = answer_of(problem_of(machines, ("/options", 100), ("/goodput/preemptions_per_device_hour", 0.05)))

    def hours(answer: dict[str, Any]) -> dict[str, float]:
        return {
            json.dumps([row["offer"] | {"price_age_days": 0}, row["estimate"]["hardware"]], sort_keys=True): row[
                "hours"
            ]
            for row in answer["options"]
        }

    before, after = hours(calm), hours(often)
    assert before.keys() == after.keys()
    slower = {place for place in before if after[place] > before[place]}
    assert slower == {place for place in before if '"spot"' in place}
    assert len(slower) < len(before)
