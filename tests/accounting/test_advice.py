"""Advice: real savings, cheapest first, only where something has to change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting.advice import advice, changes
from accounting.estimate import Estimate, estimate
from accounting.facts.precisions import PRESETS
from accounting.scenario import Scenario
from accounting.vocabulary import Attention, Engine
from tests.accounting.step_time.scenes import DENSE, scene

DEEPSPEED: dict[str, Any] = {"engine": Engine.DEEPSPEED, "zero_stage": 1, "precision": PRESETS["bf16-master"]}


def tight(**columns: Any) -> Estimate:
    """An 8B model under ZeRO-1 on a few cards: it does not fit."""
    return estimate(scene(DENSE, recipe=DEEPSPEED | {"attention": Attention.EAGER}, dp_shard=4, **columns))


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
        assert row["saves_bytes"] == before - int(after.device_bytes[0, 0]) > 0
        assert row["fits"] == bool(after.fits()[0, 0])
        assert row["time_ratio"] == pytest.approx(
            float(after.timing.step_seconds[0, 0] / found.timing.step_seconds[0, 0])
        )


def test_cheapest_first_among_those_that_suffice() -> None:
    rows = advice(tight(micro_batch_size=2))
    enough = [row["time_ratio"] for row in rows if row["fits"]]
    assert enough == sorted(enough)
    assert [row["fits"] for row in rows] == sorted((row["fits"] for row in rows), reverse=True)


def test_nothing_to_say() -> None:
    found = tight(micro_batch_size=4)
    assert advice(estimate(of_capacity(found, 10**13))) == []
    assert advice(estimate(of_capacity(found, -1))) == []


def test_a_row_among_others() -> None:
    many = tight(micro_batch_size=[1, 4])
    assert advice(many, 1) == advice(tight(micro_batch_size=4))
