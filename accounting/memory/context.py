"""Everything several ledger lines share, worked out once per scenario and only when a line asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accounting.facts.dtypes import itemsize, stored_bytes, tensor_constant_bytes
from accounting.facts.frameworks import OLD_SOFTWARE_BELOW_CAPABILITY
from accounting.memory.blocks import WHOLE_BASES, BlockBytes, block_bytes
from accounting.memory.held import HeldTensors
from accounting.memory.numerics import Numerics, numerics_of
from accounting.memory.sharding import Cut
from accounting.partition import LocalTensor, Partition, add_up
from accounting.scenario import Scenario
from accounting.units import Bytes, ceil_div
from accounting.vocabulary import Engine, Place, RecomputeMode


@dataclass(frozen=True, slots=True)
class StageActivations:
    """What the blocks of a stage keep, (N, S) each."""

    held: Bytes
    """All micro-batches in flight, at the end of a forward."""
    one_micro_batch: Bytes
    """The share of the micro-batch whose backward runs."""
    one_block: Bytes
    """What stays of one (the largest) block."""
    recomputed: Bytes
    """What recomputation brings back for the one block whose backward runs."""
    working_set: Bytes
    weight_copies: Bytes
    """Autocast copies of the stage's weights alive at the end of a forward."""
    weight_cache: Bytes
    """Copies that only autocast's cache holds, until the forward ends."""
    offloaded: Bytes
    """Bytes of `held` that wait in host memory."""


class Context(HeldTensors):
    """A scenario with its partition and the parts that lines share."""

    def __init__(self, scenario: Scenario, partition: Partition | None = None, shard_rank: Bytes | None = None) -> None:
        super().__init__(scenario, partition, shard_rank)
        self.numerics: Numerics = numerics_of(scenario.recipe)
        self.known_states: tuple[Bytes, Bytes] | None = None
        """What `states.optimizer_bytes` found."""

    @cached_property
    def old_software(self) -> NDArray[np.bool_]:
        """Whether the card is older than what PyTorch 2 and CUDA 11.7 were made for. [(N, 1)]"""
        machine = self.scenario.machine
        old = [_older(row.compute_capability) for row in machine.accelerators]
        return np.array(old, dtype=np.bool_)[machine.accelerator_index]

    # --- frozen weights ------------------------------------------------------------------------------------------

    @cached_property
    def base_dtype(self) -> str:
        """What the frozen base rests in; the parameters' dtype where nothing is frozen by an adapter."""
        adapter = self.recipe.adapter
        return adapter.base_dtype if adapter is not None else self.recipe.precision.parameters

    @cached_property
    def frozen_bytes(self) -> Bytes:
        """Frozen weights of a rank: quantised matrices, 16- or 32-bit embeddings, norms and head. [byte, (N, S)]"""
        total = self.zero
        engine, divided = self.recipe.engine, self.law.parameters
        for item in self.frozen:
            one = self.frozen_tensor_bytes(item)
            quantised = self.is_quantised(item)
            if divided and not quantised and self.law.cut is Cut.DIM0:
                rows = item.dims[0] if item.dims else np.ones_like(self.partition.shard_group)
                one = ceil_div(rows, self.partition.shard_group) * (one // rows)
            elif divided and not (quantised and engine is Engine.DEEPSPEED):
                one = ceil_div(one, self.partition.shard_group)
            total = total + one * item.copies
        return total

    def is_quantised(self, item: LocalTensor) -> bool:
        """Whether the base stores this tensor in its low-bit type."""
        # Fabric's plugin swaps every linear layer, the head's too.
        stored_low = item.tensor.quantisable or (self.numerics.litgpt and item.tensor.role == "head")
        return self.base_is_quantised and stored_low

    @property
    def base_is_quantised(self) -> bool:
        """The frozen base rests in fewer than 16 bits."""
        return self.base_dtype not in WHOLE_BASES

    def frozen_tensor_bytes(self, item: LocalTensor) -> Bytes:
        """One frozen tensor at rest. [byte, (N, 1)]"""
        options = self.recipe.options
        if self.is_quantised(item):
            double = options.bnb_4bit_use_double_quant or self.numerics.torchtune
            stored = stored_bytes(self.base_dtype, item.elements, item.dims[0], double_quant=double)
            return stored + tensor_constant_bytes(self.base_dtype, double_quant=double)
        if self.base_dtype in WHOLE_BASES:
            size = itemsize(self.base_dtype)
        else:
            # Quantising loaders leave the rest in 16 bit; the k-bit preparation raises it to fp32.
            size = 4 if options.prepare_model_for_kbit_training else 2
        return item.elements * size

    # --- units ---------------------------------------------------------------------------------------------------

    @cached_property
    def block_elements(self) -> Bytes:
        """Parameters of the largest block of a stage. [elements, (N, S)]"""
        return self.partition.largest_unit()

    def unit_sum(self, unit: int, of: Callable[[LocalTensor], Bytes | int]) -> Bytes:
        """Sum of something over the tensors of one block of a kind, or of the root (-1). [(N, S)]"""
        return add_up(self.partition.one_unit(unit, of), self.partition.shape) * self.partition.active

    def largest_block(self, of: Callable[[LocalTensor], Bytes | int]) -> Bytes:
        """The largest such sum over the kinds of block a stage holds. [(N, S)]"""
        sums = [
            np.where(count > 0, self.unit_sum(kind, of), 0) for kind, count in enumerate(self.partition.kind_layers)
        ]
        return np.maximum.reduce(sums) if sums else self.zero

    def gathered_bytes(self, item: LocalTensor) -> Bytes:
        """One tensor unsharded for a forward: frozen ones as stored, the others in the compute dtype. [byte]"""
        if not item.tensor.trainable:
            return self.frozen_tensor_bytes(item)
        return item.elements * itemsize(self.recipe.precision.activations)

    @cached_property
    def root_elements(self) -> Bytes:
        """Parameters of a stage outside its blocks. [elements, (N, S)]"""
        return self.partition.unit_elements(-1) * self.partition.active

    @cached_property
    def wraps_vocabulary(self) -> bool:
        """Embedding and head are gathered as units of their own; a tied matrix stays with the root."""
        return self.numerics.torchtune and self._has_head

    @cached_property
    def head_elements(self) -> Bytes:
        """Parameters of the output head, tied or not, where it trains. [elements, (N, S)]"""
        return self._root_matrix(("lm_head",)) if self._has_head else self._root_matrix(("embed_tokens",))

    @cached_property
    def _has_head(self) -> bool:
        return any(item.tensor.module == "lm_head" for item in self.partition.local)

    def _root_matrix(self, modules: tuple[str, ...]) -> Bytes:
        total = self.zero
        for item in self.trainable:
            if item.unit == -1 and item.tensor.module in modules:
                total = np.maximum(total, item.elements * (item.copies > 0))
        return total * self.partition.is_last

    # --- activations ---------------------------------------------------------------------------------------------

    @cached_property
    def has_activations(self) -> bool:
        """A tensor list and a bare count have none that anybody knows."""
        return self.recipe.model.architecture is not None

    @cached_property
    def blocks(self) -> tuple[BlockBytes, ...]:
        """What one block of each kind keeps."""
        kinds = range(len(self.recipe.inventory.kinds)) if self.has_activations else ()
        return tuple(block_bytes(self.recipe, self.partition, self.layout, kind, self.numerics) for kind in kinds)

    @cached_property
    def stage(self) -> StageActivations:
        """Sums over a stage's blocks under the recipe's recomputation. [byte, (N, S)]"""
        one = kept_block = recomputed = working = copies = cache = self.zero
        for block, count in zip(self.blocks, self.partition.kind_layers, strict=True):
            here = count > 0
            recomputing = self._recomputed_blocks(count)
            one = one + block.kept * recomputing + block.full * (count - recomputing)
            kept_block = np.maximum(kept_block, np.where(recomputing > 0, block.kept, block.full) * here)
            recomputed = np.maximum(recomputed, (block.full - self._shared(block)) * (here & (recomputing > 0)))
            working = np.maximum(working, block.working_set * here)
            copies = copies + block.weight_copies * (count - recomputing)
            cache = cache + block.weight_copies * recomputing
        virtual = np.maximum(self.layout.vpp, 1)
        held = ceil_div(one * self.partition.live_chunks, virtual)
        micro_batch = ceil_div(one, virtual)
        offloaded = np.maximum(held - 2 * kept_block, 0) if self.recipe.offload.activations is Place.CPU else self.zero
        return StageActivations(
            held - offloaded,
            np.maximum(micro_batch - offloaded, 0),
            kept_block,
            recomputed,
            working,
            copies,
            cache,
            offloaded,
        )

    def _recomputed_blocks(self, count: Bytes) -> Bytes:
        recompute = self.recipe.recompute
        if recompute.mode is RecomputeMode.NONE:
            return np.zeros_like(count)
        chosen = ceil_div(count, recompute.every)
        if self.recipe.options.selective_ac_option not in (None, "op"):
            chosen = ceil_div(count, int(self.recipe.options.selective_ac_option or 1))
        return chosen if recompute.layers is None else np.minimum(chosen, recompute.layers)

    def _shared(self, block: BlockBytes) -> Bytes:
        """What recomputation need not bring back: kept rows, or the block input that the first norm saves itself."""
        architecture = self.recipe.model.architecture
        assert architecture is not None
        if self.recipe.recompute.mode is RecomputeMode.SELECTIVE:
            return block.kept
        # An RMSNorm in plain 16 bit saves an fp32 copy, which does not share the checkpointed input.
        copies = architecture.norm == "rmsnorm" and not self.numerics.fused_norm and self.numerics.residual == 2
        return np.zeros_like(block.boundary) if copies else block.boundary


def _older(capability: str | None) -> bool:
    try:
        return float(capability or "") < OLD_SOFTWARE_BELOW_CAPABILITY
    except ValueError:
        return False
