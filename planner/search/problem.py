"""What the search is asked: a plan request with every default filled in and every name looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from accounting.catalog import Accelerator, NodeType, Offer
from accounting.evidence import SHIPPED, Evidence
from accounting.facts.optimizers import Optimizer
from accounting.facts.precisions import Precision
from accounting.model import Adapter, Model
from accounting.options import Options
from accounting.scenario import Offload, Recompute, Scenario
from accounting.vocabulary import Attention, Engine

Axis = tuple[int, ...] | None
"""Values to try; None = the search chooses them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Devices a team already has."""

    slug: str
    accelerator: Accelerator
    node_type: NodeType
    count: int
    usd_per_device_hour: float | None

    @property
    def offer(self) -> Offer | None:
        """The pool's own price as an offer of one device; None where it has none."""
        if self.usd_per_device_hour is None:
            return None
        return Offer(
            provider="pool",
            region=self.slug,
            instance=self.slug,
            node_type=self.node_type.slug,
            accelerator=self.accelerator.slug,
            accelerator_count=1,
            pricing_kind="internal",
            commitment="",
            usd_per_hour=self.usd_per_device_hour,
            price_date=None,
            date_precision="undated",
            price_not_before=None,
            price_not_after=None,
            source="the pool's internal price",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    deadline_hours: float | None = None
    budget_usd: float | None = None
    memory_headroom: float = 0.05
    """Share of the capacity that stays free."""
    risk: str = "upper"
    """`upper`: the upper end of the memory band must fit; `expected`: device_bytes must."""
    max_price_age_days: int | None = None
    min_tokens_per_second: float | None = None
    """Of all devices together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    checkpoint_seconds: float = 60.0
    restart_seconds: float = 600.0
    failures_per_device_hour: float = 5e-6
    preemptions_per_device_hour: float | None = None
    """Of spot offers; None = not known, and not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    request: Mapping[str, Any]
    """The request with every default filled in, JSON values only."""
    model: Model
    model_request: Any
    """What stands for the model in an estimate request."""
    tokens: int | None
    sequence_length: int
    global_batch_tokens: int | None
    accelerators: tuple[Accelerator, ...]
    offers: tuple[Offer, ...]
    """Prices left by providers, regions, pricing and accelerators, in catalog order."""
    offer_nodes: tuple[NodeType | None, ...]
    """The machine behind each offer."""
    node_types: Mapping[str, NodeType]
    """By accelerator slug: the machine assumed where a device has no offer."""
    pool: Pool | None
    optimizers: tuple[tuple[Optimizer, Mapping[str, Any]], ...]
    precisions: tuple[Precision, ...]
    engines: tuple[Engine, ...]
    zero_stages: tuple[int, ...]
    tp: Axis
    pp: Axis
    cp: Axis
    ep: Axis
    micro_batch_sizes: Axis
    vpp: Axis
    counts: Axis
    """Device counts to try; None = a ladder of instances."""
    recomputes: tuple[Recompute, ...]
    offloads: tuple[Offload, ...]
    attention: Attention
    max_count: int
    min_count: int
    write_request: Callable[[Scenario, int], dict[str, Any]] = field(compare=False)
    """Writes one candidate back as the estimate request that reproduces it."""
    as_of: date | None = field(default=None, compare=False)
    """The day that prices are as old as; None = ages are not asked for."""
    constraints: Constraints = Constraints()
    goodput: Goodput = Goodput()
    objective: str = "cost"
    option_count: int = 10
    adapter: Adapter | None = None
    options: Options = Options()
    evidence: Evidence = SHIPPED
    """The measured runs behind likely ranges."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())
