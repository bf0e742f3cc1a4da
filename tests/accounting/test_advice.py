"""Advice: real savings, cheapest first; what a run with room could give back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting.advice import changes, luxuries
from accounting.estimate import Estimate, estimate, explain
from accounting.facts.precisions import PRESETS
from accounting.scenario import Recompute, Scenario
from accounting.vocabulary import Attention, Engine, RecomputeMode
from tests.accounting.step_time.scenes import DENSE, scene

DEEPSPEED: dict[str, Any] = {"engine": Engine.DEEPSPEED, "zero_stage": 1, "precision": PRESETS["bf16-master"]}


def tight(**columns: Any) -> Estimate:
    """An 8B model under ZeRO-1 on a few cards: it does not fit."""
    return estimate(scene(DENSE, recipe=DEEPSPEED | {"attention": Attention.EAGER}, dp_shard=4, **columns))


def advice(found: Estimate, index: int = 0) -> list[dict[str, Any]]:
    rows = [found.scenario.take(slice(row, row + 1)) for row in range(len(found.scenario))]
    advised: list[dict[str, Any]] = explain(rows)[index]["advice"]
    return advised


def of_capacity(found: Estimate, capacity: int) -> Scenario:
    machine = replace(
        found.scenario.machine, capacity_bytes=np.full_like(found.scenario.machine.capacity_bytes, capacity)
    )
    return replace(found.scenario, machine=machine)


def test_every_change_saves_what_it_says() -> None:
    found = tight(micro_batch_size=4)
    before = int(found.device_bytes[0, 0])
    made = dict(changes(found.scenario))
    rows = advice(found)
    expected = {"recompute=full", "attention=flash", "offload.optimizer=cpu"}
    assert expected <= {row["change"] for row in rows}
    for row in rows:
        after = estimate(made[row["change"]])
        assert row["saves_bytes"] == before - int(after.device_bytes[0, 0]) > 0 == row["takes_bytes"]
        assert row["fits"] == bool(after.fits()[0, 0])
        assert row["time_ratio"] == pytest.approx(
            float(after.timing.step_seconds[0, 0] / found.timing.step_seconds[0, 0])
        )


def test_cheapest_first_among_those_that_suffice() -> None:
    rows = advice(tight(micro_batch_size=2))
    enough = [row["time_ratio"] for row in rows if row["fits"]]
    assert enough == sorted(enough)
    assert [row["fits"] for row in rows] == sorted((row["fits"] for row in rows), reverse=True)


def test_nothing_to_say_of_an_unknown_capacity() -> None:
    assert advice(estimate(of_capacity(tight(micro_batch_size=4), -1))) == []


def test_several_changes_where_none_is_enough() -> None:
    """Fifteen times what the card holds: one row names the changes that make it fit together."""
    found = tight(micro_batch_size=8)
    rows = advice(found)
    enough = [row for row in rows if row["fits"]]
    assert [row["change"].count(", ") > 0 for row in enough] == [True]
    assert enough[0] is rows[0]
    assert enough[0]["saves_bytes"] > max(row["saves_bytes"] for row in rows[1:])


def test_what_a_run_that_fits_could_give_back() -> None:
    """Full recomputation and ZeRO-3 on a card with room: each is given back for a faster step, most time first."""
    recipe = {"engine": Engine.FSDP2, "zero_stage": 3, "recompute": Recompute(mode=RecomputeMode.FULL)}
    found = estimate(scene(DENSE, recipe=recipe, dp_shard=8, micro_batches=2))
    rows = advice(estimate(of_capacity(found, 10**13)))
    made = dict(luxuries(found.scenario))
    assert {"recompute=none", "sharding.zero_stage=2"} <= {row["change"] for row in rows}
    assert [row["time_ratio"] for row in rows] == sorted(row["time_ratio"] for row in rows)
    for row in rows:
        after = estimate(made[row["change"]])
        assert row["takes_bytes"] == int(after.device_bytes[0, 0]) - int(found.device_bytes[0, 0]) > 0
        assert row["saves_bytes"] == 0
        assert row["fits"] and row["time_ratio"] < 1


def test_nothing_is_given_back_that_would_not_fit() -> None:
    recipe = {"engine": Engine.FSDP2, "zero_stage": 3, "recompute": Recompute(mode=RecomputeMode.FULL)}
    found = estimate(scene(DENSE, recipe=recipe, dp_shard=8, micro_batches=2))
    assert advice(estimate(of_capacity(found, int(found.device_bytes[0, 0])))) == []


def test_no_change_of_code_base_passes_for_a_saving() -> None:
    """A fused loss would name Megatron-Core where nanotron is priced."""
    recipe = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master-fp32grad"]}
    assert "options.loss=fused" not in dict(changes(scene(DENSE, recipe=recipe, tp=2)))
    assert "options.loss=fused" in dict(changes(scene(DENSE, recipe=DEEPSPEED)))


def test_a_row_among_others() -> None:
    many = tight(micro_batch_size=[1, 4])
    assert advice(many, 1) == advice(tight(micro_batch_size=4))
