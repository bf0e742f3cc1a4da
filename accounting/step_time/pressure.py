"""What running on the card's last bytes costs."""

from __future__ import annotations

import numpy as np

from accounting.units import Bytes, Floats

_FREE_UNTIL = 0.97
"""Share of the card up to which the allocator finds room without giving blocks back."""


def allocator_retries(seconds: Floats, need: Bytes, capacity: Bytes, most: Floats | float) -> Floats:
    """Freeing and asking again for memory where a run fits by a hair, by engine. [second, (N, 1)]

    most·step·min((share - 0.97)/0.03, 1) from a share of 97 % of the card on; `most` is the engine's. 0 where the
    capacity is unknown (-1).
    Source: measured runs (EngineRow.full_card); torch.cuda.memory_stats, num_alloc_retries.
    """
    share = np.where(capacity > 0, need / np.maximum(capacity, 1), 0.0)
    full = np.clip((share - _FREE_UNTIL) / (1 - _FREE_UNTIL), 0.0, 1.0)
    return seconds * most * full
