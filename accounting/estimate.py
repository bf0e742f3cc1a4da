"""The one composition: a Scenario in, an Estimate out. N = 1 for an explained answer, N = 10^6 for a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.advice import advice
from accounting.answer import answer_row
from accounting.ledger import Ledger, fill
from accounting.memory import MEMORY_LINES
from accounting.memory.context import Context
from accounting.memory.device import Device, device_bytes
from accounting.memory.outside import host_bytes_per_rank
from accounting.scenario import Scenario
from accounting.standing import Standing, standing_of
from accounting.step_time import Timing, step_time
from accounting.units import Bytes
from accounting.version import ENGINE_VERSION

__all__ = ["ENGINE_VERSION", "Estimate", "Need", "estimate", "limit_bytes", "memory_of", "need_of"]


@dataclass(frozen=True)
class Estimate:
    """Bytes and seconds of every candidate, with the ledger they come from."""

    scenario: Scenario
    context: Context
    ledger: Ledger
    device: Device
    timing: Timing

    @property
    def worst_stage(self) -> NDArray[np.int64]:
        """Pipeline stage with the largest driver-visible peak. [(N, 1)]"""
        worst: NDArray[np.int64] = np.argmax(self.device.total, axis=1).reshape(-1, 1)
        return worst

    def at_worst(self, bytes_by_stage: Bytes) -> Bytes:
        """The worst stage's value. [(N, 1)]"""
        return np.take_along_axis(np.broadcast_to(bytes_by_stage, self.ledger.shape), self.worst_stage, axis=1)

    @property
    def peak_allocated_bytes(self) -> Bytes:
        """`torch.cuda.max_memory_allocated` of the worst stage. [byte, (N, 1)]"""
        return self.at_worst(self.device.allocated)

    @property
    def peak_reserved_bytes(self) -> Bytes:
        """`torch.cuda.max_memory_reserved` of the worst stage. [byte, (N, 1)]"""
        return self.at_worst(self.device.reserved)

    @property
    def device_bytes(self) -> Bytes:
        """What the driver shows for the worst stage. [byte, (N, 1)]"""
        return self.at_worst(self.device.total)

    @property
    def device_bytes_low(self) -> Bytes:
        """Lower end of the likely range. [byte, (N, 1)]"""
        return self.at_worst(self.device.low)

    @property
    def device_bytes_high(self) -> Bytes:
        """Upper end of the likely range. [byte, (N, 1)]"""
        return self.at_worst(self.device.high)

    @property
    def limit_bytes(self) -> Bytes:
        """Capacity less the headroom asked for; -1 where the capacity is unknown. [(N, 1)]"""
        return limit_bytes(self.scenario.machine.capacity_bytes, self.scenario.recipe.headroom)

    def fits(self, *, upper: bool = False) -> NDArray[np.bool_]:
        """Need against limit, expected or at the upper end of the range; False where the capacity is unknown."""
        need = self.device_bytes_high if upper else self.device_bytes
        return (self.limit_bytes >= 0) & (need <= self.limit_bytes)

    def row(self, index: int = 0) -> dict[str, Any]:
        """The contract's answer for one candidate."""
        return answer_row(self, index) | {"advice": advice(self, index)}


def limit_bytes(capacity: Bytes, headroom: float) -> Bytes:
    """Capacity less the share that stays free; -1 where the capacity is unknown. [byte]"""
    return np.where(capacity < 0, -1, capacity - np.ceil(capacity * headroom).astype(np.int64))


def memory_of(scenario: Scenario) -> tuple[Context, Ledger, Device]:
    """The memory half of an estimate: shared context, ledger, and the driver's view per stage."""
    context = Context(scenario)
    ledger = fill(MEMORY_LINES, context)
    return context, ledger, device_bytes(context, ledger)


def estimate(scenario: Scenario) -> Estimate:
    """Memory, time and traffic of every candidate of a scenario. Pure; not fitting is an answer, not an exception."""
    context, ledger, device = memory_of(scenario)
    worst = np.argmax(device.total, axis=1).reshape(-1, 1)
    timing = step_time(scenario, context.partition, need=np.take_along_axis(device.total, worst, axis=1))
    return Estimate(scenario=scenario, context=context, ledger=ledger, device=device, timing=timing)


@dataclass(frozen=True, slots=True)
class Need:
    """What a candidate needs of its machine, int64 of shape (N, 1)."""

    expected: Bytes
    """Driver-visible bytes of the worst stage."""
    upper: Bytes
    """Upper end of their likely range."""
    host_per_rank: Bytes


def need_of(scenario: Scenario, standing: Standing | None = None) -> Need:
    """The memory half of an estimate, reduced to what a search compares with a machine.

    `standing` is what `standing_of` found for these candidates, where somebody has asked it already.
    """
    context = Context(scenario)
    ledger = (standing_of(scenario) if standing is None else standing).fill(context)
    device = device_bytes(context, ledger)
    worst = np.argmax(device.total, axis=1).reshape(-1, 1)
    return Need(
        expected=np.take_along_axis(device.total, worst, axis=1),
        upper=np.take_along_axis(device.high, worst, axis=1),
        host_per_rank=host_bytes_per_rank(ledger),
    )
