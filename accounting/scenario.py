"""The one input of every formula: a recipe (one value for all candidates) and columns (one row a candidate).

Columns are int64 or float64 arrays of shape (N, 1), so that per-stage arrays of shape (N, S) broadcast against them.
A single estimate is N = 1, a search N = 10^6: the same functions. What changes the *law* of a formula (engine, stage,
optimizer, precision, recompute) is recipe; what changes its *numbers* (degrees, batch, machine) is a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accounting.catalog import Accelerator, NodeType, Offer
from accounting.evidence import SHIPPED, Evidence
from accounting.facts.optimizers import Optimizer
from accounting.facts.precisions import Precision
from accounting.model import Adapter, Inventory, Model, Tensor, adapted
from accounting.options import Options
from accounting.units import Bytes
from accounting.vocabulary import Attention, Engine, Place, RecomputeMode, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    mode: RecomputeMode = RecomputeMode.NONE
    every: int = 1
    """Full: one block in `every` is recomputed."""
    layers: int | None = None
    """Full: only this many blocks of each stage are recomputed."""
    modules: tuple[str, ...] = ()
    """Selective: which modules; empty = the attention core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    optimizer: Place = Place.NONE
    parameters: Place = Place.NONE
    activations: Place = Place.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraModel:
    """Other weights the run holds: an EMA copy, a reference, a reward model."""

    role: str
    dtype: str = "bf16"
    parameters: int | None = None
    """None = as many as the model."""
    trainable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    model: Model
    engine: Engine = Engine.FSDP2
    zero_stage: int = 3
    precision: Precision
    optimizer: Optimizer
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    recompute: Recompute = Recompute()
    attention: Attention = Attention.FLASH
    offload: Offload = Offload()
    adapter: Adapter | None = None
    extra_models: tuple[ExtraModel, ...] = ()
    schedule: Schedule = Schedule.ONE_F_ONE_B
    stage_layers: tuple[int, ...] | None = None
    """Blocks per pipeline stage; None = spread as the engine would."""
    packed: bool = False
    mean_sequence_length: int | None = None
    headroom: float = 0.0
    options: Options = Options()
    evidence: Evidence = SHIPPED
    """The measured runs that ranges rest on."""
    inventory: Inventory = field(init=False)
    """The tensors as they train: the model's own, or with an adapter's beside a frozen base."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "inventory", trained_inventory(self.model, self.adapter))


def replace_recipe(recipe: Recipe, **changes: Any) -> Recipe:
    """A recipe with some members changed; its inventory is worked out anew."""
    members = {name: getattr(recipe, name) for name in Recipe.__dataclass_fields__ if name != "inventory"}
    return Recipe(**(members | changes))


EVENLY_SPREAD = "evenly_spread"
"""Role of the one tensor that stands for a bare count: every tensor- and pipeline-parallel rank holds its share."""


def trained_inventory(model: Model, adapter: Adapter | None) -> Inventory:
    """Tensors of a run: a bare count is one flat tensor; an adapter freezes the base and adds its own.

    Raises ConfigError where the adapter names what the model does not have.
    """
    if model.inventory is None:
        return Inventory(
            first=(Tensor(name="all", shape=(model.parameters,), role=EVENLY_SPREAD, tensor_parallel_dim=0),)
        )
    if adapter is None or model.architecture is None:
        return model.inventory
    return adapted(model.inventory, model.architecture, adapter).inventory


class Columns:
    """Shared behaviour of the column groups: take rows, count rows, cast once."""

    __slots__ = ()

    def take(self, rows: NDArray[np.int64] | slice) -> Self:
        """The same columns for a choice of rows."""
        picked = {}
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if not isinstance(value, np.ndarray):
                picked[item.name] = value
            else:
                # Three times as fast as indexing, row by row of one element.
                picked[item.name] = value[rows] if isinstance(rows, slice) else value.take(rows, axis=0)
        return type(self)(**picked)


BATCH_COLUMNS = ("micro_batch_size", "micro_batches")
"""What two layouts may differ in and still hold the same weights and states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(Columns):
    """Degrees and batch. dp_replicate · dp_shard · tp · cp · pp = count; ep · etp divides dp · cp · tp."""

    count: Bytes
    dp_replicate: Bytes
    dp_shard: Bytes
    tp: Bytes
    cp: Bytes
    pp: Bytes
    vpp: Bytes
    ep: Bytes
    etp: Bytes
    sequence_parallel: NDArray[np.bool_]
    sequence_length: Bytes
    micro_batch_size: Bytes
    micro_batches: Bytes
    """Micro-batches a rank runs per optimizer step (gradient accumulation, pipeline)."""

    @property
    def data_parallel(self) -> Bytes:
        """Replicas of the model that see different data. [(N, 1)]"""
        return self.dp_replicate * self.dp_shard

    @property
    def global_batch_size(self) -> Bytes:
        """Sequences per optimizer step."""
        return self.data_parallel * self.micro_batch_size * self.micro_batches

    @property
    def tokens_per_step(self) -> Bytes:
        """Tokens of one optimizer step over all devices. [(N, 1)]"""
        return self.global_batch_size * self.sequence_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Columns):
    """Facts of the device and node of each candidate, gathered from catalog rows by index; NaN or -1 = unknown."""

    accelerators: tuple[Accelerator, ...]
    accelerator_index: NDArray[np.int64]
    node_types: tuple[NodeType | None, ...]
    node_index: NDArray[np.int64]
    offers: tuple[Offer | None, ...]
    """The offer a candidate is priced by; None where no price is asked or known."""
    offer_index: NDArray[np.int64]
    capacity_bytes: Bytes
    """What the driver reports as the card's total; -1 = unknown."""
    devices_per_node: Bytes
    scaleup_domain: Bytes
    """Devices that share the fast link (a node, or an NVL72 rack)."""
    host_memory_bytes: Bytes
    host_cores: Bytes
    power_watts: NDArray[np.float64]
    memory_bandwidth: NDArray[np.float64]
    """byte/s of device memory, as specified."""
    peak_flops: NDArray[np.float64]
    """Dense FLOP/s in the recipe's compute dtype; of the next dtype the device runs where it lacks that one."""
    intra_bandwidth: NDArray[np.float64]
    """byte/s per device and direction inside the scale-up domain."""
    inter_bandwidth: NDArray[np.float64]
    """byte/s per node and direction between nodes (all NICs)."""
    pcie_bandwidth: NDArray[np.float64]
    """byte/s per device and direction between host and device."""
    usd_per_device_hour: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    recipe: Recipe
    layout: Layout
    machine: Machine
    assumptions: tuple[str, ...] = ()
    """Every default that was filled in, in words."""
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.layout.count.shape[0])

    def take(self, rows: NDArray[np.int64] | slice) -> Scenario:
        """The same recipe for a choice of candidates."""
        return Scenario(
            recipe=self.recipe,
            layout=self.layout.take(rows),
            machine=self.machine.take(rows),
            assumptions=self.assumptions,
            warnings=self.warnings,
        )

    def chunks(self, size: int = 16_384) -> Iterator[Scenario]:
        """Slices small enough for the cache, in order."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))


def column(values: Any, dtype: type = np.int64) -> NDArray[Any]:
    """Any scalar or sequence as a column of shape (N, 1). int64 unless told otherwise, never int32."""
    return np.atleast_1d(np.asarray(values, dtype=dtype)).reshape(-1, 1)
