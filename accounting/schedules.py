"""How many micro-batches a pipeline stage holds at once, by schedule."""

from __future__ import annotations

import numpy as np

from accounting.scenario import Layout
from accounting.units import Bytes
from accounting.vocabulary import Schedule


def live_chunks(schedule: Schedule, stage: Bytes, layout: Layout) -> Bytes:
    """Chunks of activations held by each stage at its worst moment; a chunk is (blocks of the stage) / vpp. [(N, S)]

    1F1B and zero-bubble (H1): min(m, p - r). GPipe: m. DualPipe: min(m, p + 1). Interleaved: the warm-up of
    2(p - r - 1) + (v - 1)p chunks and the running one, at most m·v.

    Source: Narayanan 2021 §2.2; Megatron-LM schedules (warm-up count); Qi 2023 (zero bubble H1); DeepSeek-V3 §3.2.1.
    """
    micro_batches, stages, virtual = layout.micro_batches, layout.pp, layout.vpp
    if schedule is Schedule.INTERLEAVED:
        warm_up = 2 * (stages - stage - 1) + (virtual - 1) * stages
        held: Bytes = np.clip(warm_up + 1, 1, micro_batches * virtual)
        return held
    if schedule is Schedule.GPIPE:
        return np.maximum(micro_batches, 1) + 0 * stage
    if schedule is Schedule.DUALPIPE:
        return np.minimum(micro_batches, stages + 1) + 0 * stage
    usual: Bytes = np.maximum(np.minimum(micro_batches, stages - stage), 1)
    return usual
