"""Seconds of one optimizer step, term by term, from the same Scenario as the memory ledger.

Symbols: m micro-batches of a step, p pipeline stages, v virtual stages, P dense peak FLOP/s, W device bandwidth, B link
bandwidth. Blocks are timed once per layer kind, (N, 1); stages add them up, (N, S); the slowest stage sets the step.
"""

from accounting.step_time.repeated import Repeated, repeated_of
from accounting.step_time.step import step_seconds, step_time
from accounting.step_time.timing import PARTS, TimeRow, Timing

__all__ = ["PARTS", "Repeated", "TimeRow", "Timing", "repeated_of", "step_seconds", "step_time"]
