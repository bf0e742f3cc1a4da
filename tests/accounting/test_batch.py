"""Scenarios answered together: each gets what it gets alone, to the bit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from accounting.batch import answers
from accounting.estimate import estimate
from accounting.facts.precisions import PRESETS
from accounting.scenario import Scenario
from accounting.vocabulary import Engine
from tests.accounting.step_time.scenes import DENSE, MIXTURE, NODE, scene, slower

STAGE_ONE: dict[str, Any] = {"engine": Engine.DEEPSPEED, "zero_stage": 1, "precision": PRESETS["bf16-master"]}
MEGATRON: dict[str, Any] = {"engine": Engine.MEGATRON, "zero_stage": 1, "precision": PRESETS["bf16-master-fp32grad"]}


def many() -> list[Scenario]:
    """Recipes by turns; of one recipe several batches, layouts, pipelines and machines, some that do not fit."""
    slow = slower(NODE, inter_bytes_per_second_total=1e9)
    return [
        scene(DENSE, dp_shard=8),
        scene(DENSE, recipe=MEGATRON, tp=2, dp_replicate=4),
        scene(DENSE, dp_shard=64, micro_batch_size=4),
        scene(DENSE, recipe=STAGE_ONE, dp_shard=4, micro_batch_size=8),
        scene(MIXTURE, dp_shard=16),
        scene(DENSE, dp_shard=64, node=slow, micro_batches=3),
        scene(DENSE, recipe=MEGATRON, tp=4, pp=4, dp_replicate=2, micro_batches=8),
        scene(DENSE, recipe=STAGE_ONE, dp_shard=8),
        scene(DENSE, dp_shard=8, micro_batches=2),
    ]


def test_together_as_alone() -> None:
    scenarios = many()
    alone = [json.dumps(estimate(one).row()) for one in scenarios]
    assert [json.dumps(answer) for answer in answers(scenarios)] == alone


def test_each_keeps_what_was_said_of_it() -> None:
    said = [replace(one, assumptions=(f"of {place}",), warnings=(f"mind {place}",)) for place, one in enumerate(many())]
    for place, answer in enumerate(answers(said)):
        assert f"of {place}" in answer["assumptions"] and f"mind {place}" in answer["warnings"]
        assert sum(text.startswith("mind") for text in answer["warnings"]) == 1


def test_nothing_asked_nothing_answered() -> None:
    assert answers([]) == []
