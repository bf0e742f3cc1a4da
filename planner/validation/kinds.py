"""The kinds of validation as rows: what each one measures, where it runs, what it can take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from planner.queue import GPU_VALIDATION_RUN, VALIDATION_RUN

MAX_TENSORS = 60_000
"""Parameters that a meta or fake model may consist of: each is an object in Python, whatever its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    name: str
    title: str
    task: str = VALIDATION_RUN
    runs_model: bool = True
    """Needs the extra: torch and transformers, in a process of its own."""
    engines: tuple[str, ...] = ()
    """Engines it can run; empty = whatever the request says does not matter to it."""
    tensor_parallel: bool = False
    most_ranks: int | None = None
    """Ranks that really run; a request for more is measured on so many and predicted for them."""
    least_cost: int
    """Order of the kinds from cheap to dear."""
    confirms: int = 0
    """How much of a plan it can confirm on workers without a device: 1 counts, 2 state bytes, 3 the whole step.
    0 = never chosen unless named."""


_ROWS = (
    Kind(name="shapes", title="Counts and shapes of the library's own model class", least_cost=1, confirms=1),
    Kind(
        name="cpu",
        title="Real optimizer and sharding on CPU processes, a reduced model",
        engines=("ddp", "fsdp1", "fsdp2", "deepspeed"),
        most_ranks=4,
        least_cost=2,
        confirms=2,
    ),
    Kind(name="import", title="Numbers measured elsewhere", runs_model=False, least_cost=0),
    Kind(
        name="dry-run",
        title="The whole step on fake tensors under the framework's memory tracker",
        engines=("ddp", "fsdp2"),
        tensor_parallel=True,
        least_cost=3,
        confirms=3,
    ),
    Kind(
        name="gpu",
        title="Real steps on a device",
        task=GPU_VALIDATION_RUN,
        engines=("ddp", "fsdp2"),
        most_ranks=1,
        least_cost=5,
    ),
    Kind(name="convergence", title="A small model trained beside fp32 AdamW", least_cost=4),
)
KINDS: Mapping[str, Kind] = MappingProxyType({row.name: row for row in _ROWS})
"""Kinds by the contract's names."""
