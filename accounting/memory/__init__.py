"""The memory ledger: every line in display order."""

from accounting.memory.activations import ACTIVATION_LINES, TRANSIENT_LINES
from accounting.memory.buffers import BUFFER_LINES
from accounting.memory.host import HOST_LINES
from accounting.memory.implementations import IMPLEMENTATION_LINES
from accounting.memory.loss import LOSS_LINES
from accounting.memory.states import STATE_LINES
from accounting.memory.step import STEP_LINES

MEMORY_LINES = (
    *STATE_LINES,
    *HOST_LINES,
    *ACTIVATION_LINES,
    *LOSS_LINES,
    *BUFFER_LINES,
    *IMPLEMENTATION_LINES,
    *TRANSIENT_LINES,
    *STEP_LINES,
)

__all__ = ["MEMORY_LINES"]
