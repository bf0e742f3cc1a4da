"""The traffic ledger against bytes worked out by hand, one layout of each kind of parallelism at a time.

A ring over n ranks sends (n - 1)/n of a gathered or scattered tensor, twice that of an all-reduced one.
"""

from __future__ import annotations

from typing import Any

import pytest

from accounting.facts.precisions import PRESETS
from accounting.options import Options
from accounting.scenario import Recompute
from accounting.vocabulary import Engine, RecomputeMode
from tests.accounting.step_time.scenes import DENSE, LEARNED, MIXTURE, TIED, timed

P, LAYERS, TOKENS, HIDDEN, VOCABULARY, KEY_VALUE = DENSE.parameters, 32, 4096, 4096, 128_256, 8 * 128
ACTIVATION = 2 * TOKENS * HIDDEN
"""Bytes of one boundary between blocks, 16 bit."""
ROOT = 2 * VOCABULARY * HIDDEN + HIDDEN
"""Parameters outside the blocks, which FSDP2 keeps gathered through forward and backward."""
SIXTEEN = PRESETS["bf16-master"]
MEGATRON: dict[str, Any] = {"engine": Engine.MEGATRON, "zero_stage": 0, "precision": SIXTEEN}


def sent(**scene: Any) -> dict[str, int]:
    """Bytes of one step and device by collective, those that are not zero."""
    moved = timed(**scene).traffic_bytes
    return {name: int(size[0, 0]) for name, size in moved.items() if size[0, 0]}


def about(**expected: float) -> Any:
    return pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("no_sync", "times"), [(False, 4), (True, 1)])
def test_ddp_reduces_whole_gradients_every_backward_it_synchronises(no_sync: bool, times: int) -> None:
    recipe = {"engine": Engine.DDP, "zero_stage": 0, "precision": PRESETS["fp32"], "options": Options(no_sync=no_sync)}
    assert sent(dp_replicate=8, recipe=recipe) == about(all_reduce=2 * 7 / 8 * 4 * P)
    assert sent(dp_replicate=8, micro_batches=4, recipe=recipe) == about(all_reduce=times * 2 * 7 / 8 * 4 * P)


@pytest.mark.parametrize("accumulated", [1, 4])
@pytest.mark.parametrize(
    ("stage", "gathers", "scatters"), [(1, 1, 1), (2, 1, "each"), (3, "twice each", "each")], ids=["1", "2", "3"]
)
def test_deepspeed_by_stage(stage: int, gathers: object, scatters: object, accumulated: int) -> None:
    times = {1: 1, "each": accumulated, "twice each": 2 * accumulated}
    recipe = {"engine": Engine.DEEPSPEED, "zero_stage": stage, "precision": SIXTEEN}
    unit = 7 / 8 * 2 * P
    moved = sent(dp_shard=8, micro_batches=accumulated, recipe=recipe)
    assert moved == about(all_gather=times[gathers] * unit, reduce_scatter=times[scatters] * unit)


@pytest.mark.parametrize("accumulated", [1, 4])
def test_hybrid_shards_gather_inside_and_reduce_across(accumulated: int) -> None:
    moved = sent(dp_replicate=2, dp_shard=8, micro_batches=accumulated)
    assert moved == about(
        all_gather=accumulated * 7 / 8 * 2 * (2 * (P - ROOT) + ROOT),
        reduce_scatter=accumulated * 7 / 8 * 4 * P,
        all_reduce=accumulated * 2 * 1 / 2 * 4 * P / 8,
    )


def test_resharding_only_after_the_backward_gathers_once_a_micro_batch() -> None:
    moved = sent(dp_shard=8, micro_batches=4, recipe={"zero_stage": 2})
    assert moved == about(all_gather=4 * 7 / 8 * 2 * P, reduce_scatter=4 * 7 / 8 * 4 * P)


def test_full_recompute_repeats_the_forwards_tensor_parallel_collectives() -> None:
    unit, end = LAYERS * ACTIVATION * 7 / 8, ACTIVATION * 7 / 8
    plain = sent(tp=8, recipe=MEGATRON)
    again = sent(tp=8, recipe=MEGATRON | {"recompute": Recompute(mode=RecomputeMode.FULL)})
    # Two pairs of a block in the forward; recomputation does them once more.
    assert again["all_gather"] - plain["all_gather"] == pytest.approx(2 * unit)
    # The embedding's outputs and the head's input gradient are summed and split too.
    assert plain["reduce_scatter"] == pytest.approx(4 * unit + 2 * end)
    # The backward gathers both split inputs once more, for the weights' gradient; so does the head's, and the
    # embedding's gradient is gathered.
    assert plain["all_gather"] == pytest.approx(6 * unit + 3 * end)


def test_kept_inputs_are_not_gathered_again() -> None:
    moved = sent(tp=8, recipe={"engine": Engine.FSDP2, "zero_stage": 3})
    assert moved["all_gather"] == pytest.approx((4 * LAYERS + 2) * ACTIVATION * 7 / 8)
    assert moved["reduce_scatter"] == pytest.approx((4 * LAYERS + 2) * ACTIVATION * 7 / 8)


@pytest.mark.parametrize("loss", ["standard", "fused"])
@pytest.mark.parametrize("engine", [Engine.MEGATRON, Engine.FSDP2, Engine.IDEAL])
def test_a_split_loss_adds_up_three_numbers_a_token(engine: Engine, loss: str) -> None:
    recipe = {"engine": engine, "zero_stage": 3 if engine is Engine.FSDP2 else 0, "options": Options(loss=loss)}
    moved = sent(tp=8, micro_batches=2, recipe={"precision": SIXTEEN} | recipe)
    assert moved["all_reduce"] == pytest.approx(2 * 3 * 4 * TOKENS * 2 * 7 / 8)


def test_without_sequence_parallelism_both_ends_all_reduce() -> None:
    whole, loss = 2 * 7 / 8 * ACTIVATION, 2 * 7 / 8 * 3 * 4 * TOKENS
    # Four of a block, one of the embedding's output, one of the head's input gradient.
    assert sent(tp=8, sequence_parallel=False, recipe=MEGATRON) == about(all_reduce=(4 * LAYERS + 2) * whole + loss)


def test_megatron_adds_learned_positions_to_the_whole_embedding() -> None:
    split = sent(model=LEARNED, tp=8, recipe=MEGATRON)
    ideal = sent(model=LEARNED, tp=8, recipe=MEGATRON | {"engine": Engine.IDEAL})
    # An all-reduce instead of the scatter: Megatron's embedding is whole before its positions are added.
    assert split["all_reduce"] - ideal["all_reduce"] == pytest.approx(2 * 7 / 8 * ACTIVATION)
    assert ideal["reduce_scatter"] - split["reduce_scatter"] == pytest.approx(7 / 8 * ACTIVATION)


@pytest.mark.parametrize("tp", [1, 4])
def test_a_tied_embedding_is_summed_between_the_ends_of_a_pipeline(tp: int) -> None:
    recipe = MEGATRON | {"precision": PRESETS["bf16-mixed"]}
    tied, apart = (sent(model=model, pp=4, tp=tp, micro_batches=8, recipe=recipe) for model in (TIED, DENSE))
    # fp32 gradients, once a step, a ring of two.
    assert tied.get("all_reduce", 0) - apart.get("all_reduce", 0) == 4 * VOCABULARY * HIDDEN / tp
    assert sent(model=TIED, tp=tp, recipe=recipe) == sent(model=DENSE, tp=tp, recipe=recipe)


def test_pipeline_stages_send_one_boundary_each_way_a_micro_batch() -> None:
    assert sent(pp=4, micro_batches=8, recipe=MEGATRON) == about(point_to_point=8 * 2 * ACTIVATION)
    # Two chunks a stage: twice the boundaries. Sequence parallelism over eight: an eighth of each.
    assert sent(pp=4, vpp=2, micro_batches=8, recipe=MEGATRON) == about(point_to_point=2 * 8 * 2 * ACTIVATION)
    split = sent(pp=4, tp=8, micro_batches=8, recipe=MEGATRON)
    assert split["point_to_point"] == pytest.approx(8 * 2 * ACTIVATION / 8)


def test_ring_attention_passes_keys_and_values_on() -> None:
    chunk = LAYERS * 2 * 2 * KEY_VALUE * TOKENS / 4
    # Three hops in the forward; keys, values and their gradients in the backward. All ranks share the gradients' sum.
    assert sent(cp=4, recipe=MEGATRON) == about(point_to_point=3 * chunk * 3, all_reduce=2 * 3 / 4 * 2 * P)


def test_experts_get_their_tokens_and_give_them_back() -> None:
    # Two experts of a token lie on 4·(1 - (3/4)²) of four ranks on average; dispatch and combine, there and back.
    copies = 4 * (1 - (3 / 4) ** 2)
    moved = sent(model=MIXTURE, dp_shard=8, ep=4, recipe=MEGATRON)
    assert moved["all_to_all"] == pytest.approx(LAYERS * 4 * 3 / 4 * copies * ACTIVATION)


def test_what_crosses_nodes_is_a_share_of_the_ring() -> None:
    # Two nodes of eight: of 16 ranks' links two cross, so each device sends 1/8 of its ring over the network.
    timing = timed(dp_shard=16)
    whole = sum(int(size[0, 0]) for size in timing.traffic_bytes.values())
    assert timing.inter_bytes[0, 0] == pytest.approx(whole / 8, rel=1e-6)
    assert timed(dp_shard=8).inter_bytes[0, 0] == 0
