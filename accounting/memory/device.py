"""From what the allocator hands out to what the driver shows: slack, context, communicators, and the likely range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.facts.bands import PIPELINE_TENSOR_PARALLEL, WIDE_TENSOR_PARALLEL, WIDEST_TENSOR_PARALLEL, Band
from accounting.facts.frameworks import (
    ALLOCATOR_SEGMENT_BYTES,
    ALLOCATOR_SLACK_FRACTION,
    CONTEXT_BYTES,
    CUT_UP_LOGITS_FRACTION,
    DEEPSPEED,
    EAGER_CONTEXT_BYTES,
    EXPANDABLE_SLACK_FRACTION,
    MODULES_SLACK_FRACTION,
    NCCL_FIRST_GROUP_BYTES,
    NCCL_NEXT_GROUP_BYTES,
    ZERO3_SETS_WAITING,
)
from accounting.implementation import runs_foundry
from accounting.ledger import BACKWARD_LOSS, BACKWARD_MOMENTS, FORWARD_MOMENTS, Ledger
from accounting.memory.buffers import live_set_bytes
from accounting.memory.context import Context
from accounting.memory.sharding import FSDP
from accounting.units import MIB, Bytes, ceil_div, pad_to
from accounting.vocabulary import Bucket, Engine

STAGE_OF_GATHERS = 3
SIXTEEN_BIT = 2
STEP_BYTES = 6
"""A 16-bit copy of an element and an fp32 one."""
RANGES_OF_MODULES = ("modules", "modules_wide", "modules_pipeline", "modules_wide_pipeline")


@dataclass(frozen=True, slots=True)
class Device:
    """Driver's view of the worst moment, int64 of shape (N, S)."""

    allocated: Bytes
    slack: Bytes
    context: Bytes
    communicators: Bytes
    learnt: Bytes
    """What a calibration set adds to, or takes from, the sum of the others; 0 without one."""
    low: Bytes
    high: Bytes

    @property
    def reserved(self) -> Bytes:
        """`torch.cuda.max_memory_reserved`."""
        return self.allocated + self.slack

    @property
    def total(self) -> Bytes:
        """What `nvidia-smi` shows for the process."""
        return self.reserved + self.context + self.communicators + self.learnt


def device_bytes(context: Context, ledger: Ledger) -> Device:
    """Add what lies outside the allocated bytes.

    reserved = allocated · (1 + slack) + what side streams keep for themselves, in 2 MiB steps, one segment at least
    device = (reserved + context + communicators (one per parallel dimension in use, and the world's)) · learnt factor

    Source: CUDACachingAllocator; nccl#964; residuals on measured runs for the range (facts.bands).
    """
    options, allocated = context.recipe.options, ledger.peak()
    usual = MODULES_SLACK_FRACTION if context.numerics.modules else ALLOCATOR_SLACK_FRACTION
    fraction = EXPANDABLE_SLACK_FRACTION if options.expandable_segments else usual
    pools = context.zero
    if not options.expandable_segments:
        pools = side_stream_pools(context) + cut_up_logits(context, ledger) + flat_step_buffers(context, ledger)
    active = context.partition.active
    extra = np.ceil(allocated * fraction).astype(np.int64) + ALLOCATOR_SEGMENT_BYTES + pools
    slack = np.where(active, pad_to(allocated + extra, 2 * MIB) - allocated, 0)
    groups = communicator_groups(context)
    nccl = np.where(groups > 0, NCCL_FIRST_GROUP_BYTES + (groups - 1) * NCCL_NEXT_GROUP_BYTES, 0) * active
    fixed = _context_bytes(context) * active
    lowest, factor, highest = likely_range(context)
    total = allocated + slack + fixed + nccl
    learnt = np.rint(total * (factor - 1)).astype(np.int64)
    low, high = (np.floor(total * lowest).astype(np.int64), np.ceil(total * highest).astype(np.int64))
    return Device(allocated, slack, fixed, nccl, learnt, low, high)


def likely_range(context: Context) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Measured over what the formulas say: lower end, expected, upper end. [(N, 1) each]"""
    names, chosen = ranges_of(context)
    rows: list[Band] = [context.recipe.evidence.band(name) for name in names]
    low, factor, high = (np.array([getattr(row, end) for row in rows]) for end in ("low", "factor", "high"))
    return low[chosen], factor[chosen], high[chosen]


def ranges_of(context: Context) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """(names of likely ranges, which of them each candidate falls under). [(N, 1)]"""
    recipe, layout = context.recipe, context.layout
    if not context.numerics.modules:
        sixteen = recipe.engine is Engine.MEGATRON and recipe.precision.parameters == "fp16"
        name = recipe.engine.value + ("_adapter" if recipe.adapter is not None else "_fp16" if sixteen else "")
        return (name,), np.zeros(layout.tp.shape, dtype=np.int64)
    wide, pipeline = layout.tp >= WIDE_TENSOR_PARALLEL, layout.pp > 1
    few = pipeline & (layout.tp >= PIPELINE_TENSOR_PARALLEL) & (layout.tp < WIDEST_TENSOR_PARALLEL)
    return RANGES_OF_MODULES, np.select((wide & few, few, wide & ~pipeline), (3, 2, 1), 0)


def side_stream_pools(context: Context) -> Bytes:
    """Freed buffers that only the stream they were made on can use again. [byte, (N, S)]

    FSDP: the gather buffer of the root unit. DeepSpeed stage 3: gathered sets that wait for their stream.
    Source: torch FSDPParamGroup's copy-in stream; DeepSpeed partition_parameters (allgather stream, record_stream).
    """
    shared = context.partition.shard_group > 1
    if context.recipe.engine in FSDP and context.has_activations:
        root = context.unit_sum(-1, context.gathered_bytes)
        return (root // 2 if context.wraps_vocabulary else root) * shared
    if context.recipe.engine is Engine.DEEPSPEED and context.recipe.zero_stage == STAGE_OF_GATHERS:
        return ZERO3_SETS_WAITING * live_set_bytes(context) * shared
    return context.zero


def cut_up_logits(context: Context, ledger: Ledger) -> Bytes:
    """What the holes of the loss take beyond the peak, where Hugging Face code upcasts and shifts kept logits. [byte]

    Blocks of whole, shifted, 16-bit and fp32 logits differ in size, so one cannot take another's place: a share of the
    loss moment's logits on top. Source: fsdp_qlora runs of fixed length, reserved bytes, fit part.
    """
    recipe = context.recipe
    upcast = recipe.options.loss == "standard" and not runs_foundry(recipe) and not context.numerics.litgpt
    if recipe.engine not in (Engine.DDP, Engine.FSDP1) or not upcast:
        return context.zero
    held = context.zero
    for row in ledger.rows:
        if row.line.bucket is Bucket.LOGITS_AND_LOSS and BACKWARD_LOSS in row.by_moment:
            held = held + row.by_moment[BACKWARD_LOSS]
    holes = np.ceil(held * CUT_UP_LOGITS_FRACTION).astype(np.int64)
    beyond: Bytes = np.maximum(ledger.totals[BACKWARD_LOSS] + holes - ledger.peak(), 0)
    return beyond


def flat_step_buffers(context: Context, ledger: Ledger) -> Bytes:
    """DeepSpeed's flat buffers of the step under Megatron, which no freed activation is large enough to hold. [byte]

    16-bit gradients: the reduce bucket, then the partition's gradients flattened and cast, 6 bytes an element of the
    shard. fp32 gradients (BF16_Optimizer): the bucket that is all-reduced, flattened and cast, 6 bytes an element, at
    least the largest tensor. All beside what the backward left cached. Source: deepspeed stage_1_and_2 (step), runtime
    engine (buffered_allreduce_fallback).
    """
    recipe = context.recipe
    if not context.numerics.megatron_deepspeed:
        return context.zero
    shared = context.partition.shard_group
    bucket = np.minimum(DEEPSPEED.reduce_bucket_size, context.trainable_elements)
    if recipe.precision.gradients == "fp32":
        largest = np.maximum(bucket, context.partition.largest_tensor())
        beside = STEP_BYTES * largest * (shared > 1)
    else:
        beside = SIXTEEN_BIT * bucket + STEP_BYTES * ceil_div(context.trainable_elements, shared)
    before = np.maximum.reduce([ledger.totals[moment] for moment in (*FORWARD_MOMENTS, *BACKWARD_MOMENTS)])
    beyond: Bytes = np.maximum(before + beside - ledger.peak(), 0)
    return beyond


def _context_bytes(context: Context) -> Bytes:
    """Driver context of each candidate's card. [byte, (N, 1)]"""
    sizes: Bytes = np.where(context.old_software, EAGER_CONTEXT_BYTES, CONTEXT_BYTES)
    return sizes


def communicator_groups(context: Context) -> Bytes:
    """Process groups with more than one rank that a rank opens, the world's among them. [(N, 1)]"""
    layout = context.layout
    degrees = (layout.dp_replicate, layout.dp_shard, layout.tp, layout.pp, layout.cp, layout.ep)
    dimensions = sum(((degree > 1).astype(np.int64) for degree in degrees), np.zeros_like(layout.count))
    return np.minimum(np.where(layout.count > 1, np.maximum(dimensions, 1), 0), 3)
