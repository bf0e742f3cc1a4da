"""What running on the card's last bytes costs."""

from __future__ import annotations

import numpy as np

from accounting.units import Bytes, Floats

_FREE_UNTIL = 0.98
"""Share of the card up to which the allocator finds room without giving blocks back."""
_MOST = 1.9
"""Of the step, with the card full. Measured steps on 99.5 % and 99.7 % of the card took 2.3 and 2.7 times as long as
the same layouts with room (H100, Megatron-style, fit part)."""


def allocator_retries(seconds: Floats, need: Bytes, capacity: Bytes) -> Floats:
    """Freeing and asking again for memory where a run fits by a hair: up to 1.9 × the step. [second, (N, 1)]

    1.9·step·(share - 0.98)/0.02 for a share of 98 to 100 % of the card. A run that does not fit gets the time it would
    have with room; 0 where the capacity is unknown (-1).
    Source: measured runs; torch.cuda.memory_stats, num_alloc_retries.
    """
    share = np.where(capacity > 0, need / np.maximum(capacity, 1), 0.0)
    full = np.where(share <= 1, np.clip((share - _FREE_UNTIL) / (1 - _FREE_UNTIL), 0.0, 1.0), 0.0)
    return seconds * _MOST * full
