"""The one composition: a Scenario in, an Estimate out. N = 1 for an explained answer, N = 10^6 for a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.advice import advice
from accounting.answer import answer_row
from accounting.joined import joined
from accounting.ledger import Ledger, fill
from accounting.memory import MEMORY_LINES
from accounting.memory.context import Context
from accounting.memory.device import Device, device_bytes
from accounting.memory.outside import host_bytes_per_rank
from accounting.partition import partition_of
from accounting.scenario import Scenario
from accounting.shared import Shared
from accounting.standing import Standing, standing_of
from accounting.step_time import Timing, step_time
from accounting.step_time.links import with_links
from accounting.units import Bytes, Floats
from accounting.variants import Variants, variants_of
from accounting.version import ENGINE_VERSION

__all__ = [
    "ENGINE_VERSION",
    "Estimate",
    "Explained",
    "Need",
    "estimate",
    "explain",
    "limit_bytes",
    "memory_of",
    "need_of",
]


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
        return explain([self.scenario.take(slice(index, index + 1))])[0]


@dataclass(frozen=True)
class Explained(Estimate):
    """An estimate of candidates together with what their answers ask beside them; what they share is asked once.

    The first `candidates` rows are the candidates, then come the changed layouts; `timing` has rows of links as well.
    """

    origins: tuple[Scenario, ...]
    """Each candidate's own scenario, with what was said of it."""
    variants: tuple[Variants, ...]

    @property
    def candidates(self) -> int:
        """How many of the rows are candidates."""
        return len(self.origins)

    @cached_property
    def shared(self) -> Shared:
        """What all answers read."""
        return Shared(self.context, self.ledger)

    @property
    def links(self) -> Floats:
        """Seconds of a step with tried links, a row for each candidate. [(candidates, tries)]"""
        return self.timing.step_seconds[len(self.scenario) :, 0].reshape(self.candidates, -1)


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


def explain(scenarios: Sequence[Scenario]) -> list[dict[str, Any]]:
    """The contract's answer of scenarios of one recipe and one row each, as each alone would get it to the bit."""
    return answers_of(explained(scenarios))


def answers_of(found: Explained) -> list[dict[str, Any]]:
    """The contract's answer of each candidate of an evaluation."""
    return [answer_row(found, index) | {"advice": advised} for index, advised in enumerate(advice(found))]


def explained(scenarios: Sequence[Scenario]) -> Explained:
    """Candidates, their layouts with one thing changed, and their links faster and slower, in one evaluation.

    What is tried is timed without the price of a full card: `need` is 0 there.
    """
    scenario = joined(scenarios)
    known = scenario.recipe.model.architecture is not None
    variants = tuple(variants_of(scenario)) if known else ()
    together = joined([scenario, *(one.scenario for one in variants)])
    context, ledger, device = memory_of(together)
    timed = joined([together, with_links(scenario)]) if known else together
    need = np.zeros((len(timed), 1), dtype=np.int64)
    need[: len(scenario), 0] = device.total.max(axis=1)[: len(scenario)]
    timing = step_time(timed, partition_of(timed) if known else context.partition, need=need)
    return Explained(
        scenario=together,
        context=context,
        ledger=ledger,
        device=device,
        timing=timing,
        origins=tuple(scenarios),
        variants=variants,
    )


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
