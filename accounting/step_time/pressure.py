"""What running on the card's last bytes costs."""

from __future__ import annotations

import numpy as np

from accounting.units import Bytes, Floats

_FREE_UNTIL = 0.97
"""Share of the card up to which the allocator finds room without giving blocks back."""
_KNOWN_UNTIL = 1.05
"""Share up to which a run that the ledger refuses may still be one that ran: the ledger's own error."""
_EXPECTED = 0.8
"""Of the step, with the card full: half of the measured runs on 95 to 105 % of the card (3 of 6, H100, fit part) took
2.3 to 2.7 times as long as the same layouts with room, the others did not."""


def allocator_retries(seconds: Floats, need: Bytes, capacity: Bytes) -> Floats:
    """Freeing and asking again for memory where a run fits by a hair: up to 0.8 × the step on average. [second, (N, 1)]

    0.8·step·min((share - 0.97)/0.03, 1) for a share of 97 to 105 % of the card. A run that needs more gets the time it
    would have with room; 0 where the capacity is unknown (-1).
    Source: measured runs; torch.cuda.memory_stats, num_alloc_retries.
    """
    share = np.where(capacity > 0, need / np.maximum(capacity, 1), 0.0)
    full = np.clip((share - _FREE_UNTIL) / (1 - _FREE_UNTIL), 0.0, 1.0)
    return seconds * _EXPECTED * np.where(share <= _KNOWN_UNTIL, full, 0.0)
