"""In-flight counts against a replay of each schedule's own order of forwards and backwards."""

from __future__ import annotations

import pytest

from accounting.scenario import Layout
from accounting.schedules import live_chunks
from accounting.vocabulary import Schedule
from tests.accounting.step_time.scenes import DENSE, scene


def layout(stages: int, micro_batches: int, virtual: int = 1) -> Layout:
    return scene(DENSE, pp=stages, vpp=virtual, micro_batches=micro_batches).layout


def replayed(warm_up: int, chunks: int) -> int:
    """Most chunks held at once: `warm_up` forwards, then one forward and one backward in turns, then the rest."""
    held = most = 0
    forwards = backwards = 0
    while backwards < chunks:
        if forwards < chunks and forwards - backwards <= warm_up:
            forwards, held = forwards + 1, held + 1
        else:
            backwards, held = backwards + 1, held - 1
        most = max(most, held)
    return most


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (2, 1), (4, 2), (4, 4), (8, 32), (12, 5)])
def test_one_forward_one_backward(stages: int, micro_batches: int) -> None:
    given = layout(stages, micro_batches)
    for stage in range(stages):
        expected = replayed(stages - stage - 1, micro_batches)
        assert int(live_chunks(Schedule.ONE_F_ONE_B, stage, given)[0, 0]) == expected
        assert int(live_chunks(Schedule.ZERO_BUBBLE, stage, given)[0, 0]) == expected


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (4, 8)])
def test_all_forwards_first(stages: int, micro_batches: int) -> None:
    for stage in range(stages):
        held = int(live_chunks(Schedule.GPIPE, stage, layout(stages, micro_batches))[0, 0])
        assert held == replayed(micro_batches, micro_batches)


@pytest.mark.parametrize(
    ("stages", "micro_batches", "virtual"), [(2, 4, 2), (4, 4, 2), (4, 8, 3), (8, 16, 2), (8, 8, 8)]
)
def test_interleaved(stages: int, micro_batches: int, virtual: int) -> None:
    """Megatron-Core's warm-up: two chunks per stage behind, and a round of all stages per further virtual stage."""
    for stage in range(stages):
        warm_up = 2 * (stages - stage - 1) + (virtual - 1) * stages
        held = int(live_chunks(Schedule.INTERLEAVED, stage, layout(stages, micro_batches, virtual))[0, 0])
        assert held == replayed(warm_up, micro_batches * virtual)
