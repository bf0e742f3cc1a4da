"""From what the allocator hands out to what the driver shows: slack, context, communicators, and the likely range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.facts.bands import PIPELINE_TENSOR_PARALLEL, WIDE_TENSOR_PARALLEL, WIDEST_TENSOR_PARALLEL, band
from accounting.facts.frameworks import (
    ALLOCATOR_SEGMENT_BYTES,
    ALLOCATOR_SLACK_FRACTION,
    CONTEXT_BYTES,
    CUT_UP_LOGITS_FRACTION,
    EAGER_CONTEXT_BYTES,
    EXPANDABLE_SLACK_FRACTION,
    LAZY_LOADING_FROM_CAPABILITY,
    MODULES_SLACK_FRACTION,
    NCCL_FIRST_GROUP_BYTES,
    NCCL_NEXT_GROUP_BYTES,
    ZERO3_SETS_WAITING,
)
from accounting.implementation import runs_foundry
from accounting.ledger import BACKWARD_LOSS, Ledger
from accounting.memory.buffers import live_set_bytes
from accounting.memory.context import Context
from accounting.memory.sharding import FSDP
from accounting.units import MIB, Bytes, pad_to
from accounting.vocabulary import Bucket, Engine

STAGE_OF_GATHERS = 3


@dataclass(frozen=True, slots=True)
class Device:
    """Driver's view of the worst moment, int64 of shape (N, S)."""

    allocated: Bytes
    slack: Bytes
    context: Bytes
    communicators: Bytes
    low: Bytes
    high: Bytes

    @property
    def reserved(self) -> Bytes:
        """`torch.cuda.max_memory_reserved`."""
        return self.allocated + self.slack

    @property
    def total(self) -> Bytes:
        """What `nvidia-smi` shows for the process."""
        return self.reserved + self.context + self.communicators


def device_bytes(context: Context, ledger: Ledger) -> Device:
    """Add what lies outside the allocated bytes.

    reserved = allocated · (1 + slack) + what side streams keep for themselves, in 2 MiB steps, one segment at least
    device = reserved + context + communicators (one per parallel dimension in use, and the world's)

    Source: CUDACachingAllocator; nccl#964; residuals on measured runs for the range (facts.bands).
    """
    options, allocated = context.recipe.options, ledger.peak()
    usual = MODULES_SLACK_FRACTION if context.numerics.modules else ALLOCATOR_SLACK_FRACTION
    fraction = EXPANDABLE_SLACK_FRACTION if options.expandable_segments else usual
    pools = 0 if options.expandable_segments else side_stream_pools(context) + cut_up_logits(context, ledger)
    active = context.partition.active
    extra = np.ceil(allocated * fraction).astype(np.int64) + ALLOCATOR_SEGMENT_BYTES + pools
    slack = np.where(active, pad_to(allocated + extra, 2 * MIB) - allocated, 0)
    groups = communicator_groups(context)
    nccl = np.where(groups > 0, NCCL_FIRST_GROUP_BYTES + (groups - 1) * NCCL_NEXT_GROUP_BYTES, 0) * active
    fixed = _context_bytes(context) * active
    lowest, highest = likely_range(context)
    reserved = allocated + slack
    total = reserved + fixed + nccl
    low, high = (np.floor(total * lowest).astype(np.int64), np.ceil(total * highest).astype(np.int64))
    return Device(allocated, slack, fixed, nccl, low, high)


def likely_range(context: Context) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Measured over predicted, lower and upper end. [(N, 1) each]"""
    recipe, layout = context.recipe, context.layout
    if not context.numerics.modules:
        sixteen = recipe.engine is Engine.MEGATRON and recipe.precision.parameters == "fp16"
        name = recipe.engine.value + ("_adapter" if recipe.adapter is not None else "_fp16" if sixteen else "")
        one = band(name)
        shape = np.ones(layout.tp.shape)
        return one.low * shape, one.high * shape
    wide, pipeline = layout.tp >= WIDE_TENSOR_PARALLEL, layout.pp > 1
    few = pipeline & (layout.tp >= PIPELINE_TENSOR_PARALLEL) & (layout.tp < WIDEST_TENSOR_PARALLEL)
    cases = (wide & few, few, wide & ~pipeline)
    rows = [band(name) for name in ("modules_wide_pipeline", "modules_pipeline", "modules_wide", "modules")]
    low = np.select(cases, [row.low for row in rows[:3]], rows[3].low)
    return low, np.select(cases, [row.high for row in rows[:3]], rows[3].high)


def side_stream_pools(context: Context) -> Bytes:
    """Freed buffers that only the stream they were made on can use again. [byte, (N, S)]

    FSDP: the gather buffer of the root unit. DeepSpeed stage 3: gathered sets that wait for their stream.
    Source: torch FSDPParamGroup's copy-in stream; DeepSpeed partition_parameters (allgather stream, record_stream).
    """
    shared = context.partition.shard_group > 1
    if context.recipe.engine in FSDP and context.has_activations:
        return context.unit_sum(-1, context.gathered_bytes) * shared
    if context.recipe.engine is Engine.DEEPSPEED and context.recipe.zero_stage == STAGE_OF_GATHERS:
        return ZERO3_SETS_WAITING * live_set_bytes(context) * shared
    return context.zero


def cut_up_logits(context: Context, ledger: Ledger) -> Bytes:
    """What the holes of the loss take beyond the peak, where Hugging Face code upcasts and shifts kept logits. [byte]

    Blocks of whole, shifted, 16-bit and fp32 logits differ in size, so one cannot take another's place: a share of the
    loss moment's logits on top. Source: fsdp_qlora runs of fixed length, reserved bytes, fit part.
    """
    recipe = context.recipe
    if recipe.engine not in (Engine.DDP, Engine.FSDP1) or recipe.options.loss != "standard" or runs_foundry(recipe):
        return context.zero
    held = context.zero
    for row in ledger.rows:
        if row.line.bucket is Bucket.LOGITS_AND_LOSS and BACKWARD_LOSS in row.by_moment:
            held = held + row.by_moment[BACKWARD_LOSS]
    holes = np.ceil(held * CUT_UP_LOGITS_FRACTION).astype(np.int64)
    beyond: Bytes = np.maximum(ledger.totals[BACKWARD_LOSS] + holes - ledger.peak(), 0)
    return beyond


def _context_bytes(context: Context) -> Bytes:
    """Driver context of each candidate's card. [byte, (N, 1)]"""
    machine = context.scenario.machine
    sizes = [
        EAGER_CONTEXT_BYTES if _loads_eagerly(row.compute_capability) else CONTEXT_BYTES for row in machine.accelerators
    ]
    return np.array(sizes, dtype=np.int64)[machine.accelerator_index]


def _loads_eagerly(capability: str | None) -> bool:
    try:
        return float(capability or "") < LAZY_LOADING_FROM_CAPABILITY
    except ValueError:
        return False


def communicator_groups(context: Context) -> Bytes:
    """Process groups with more than one rank that a rank opens, the world's among them. [(N, 1)]"""
    layout = context.layout
    degrees = (layout.dp_replicate, layout.dp_shard, layout.tp, layout.pp, layout.cp, layout.ep)
    dimensions = sum(((degree > 1).astype(np.int64) for degree in degrees), np.zeros_like(layout.count))
    return np.minimum(np.where(layout.count > 1, np.maximum(dimensions, 1), 0), 3)
