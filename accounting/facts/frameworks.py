"""Constants of the training frameworks and of the driver, each with its source."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.units import GB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedDefaults:
    """`zero_optimization` defaults, in elements. Source: deepspeed 0.19.8 runtime/zero/config.py."""

    reduce_bucket_size: int = 500_000_000
    prefetch_bucket_size: int = 50_000_000
    max_live_parameters: int = 1_000_000_000
    max_reuse_distance: int = 1_000_000_000
    param_persistence_threshold: int = 100_000
    sub_group_size: int = 1_000_000_000
    overlap_comm: bool = False
    """Off below stage 3."""
    optimizer_swap_buffers: int = 4
    parameter_swap_buffers: int = 5
    parameter_swap_buffer_size: int = 100_000_000


DEEPSPEED = DeepSpeedDefaults()

CHECKPOINT_FILE_BYTES = 5 * GB
"""Largest file of a sharded checkpoint. Source: transformers save_pretrained, max_shard_size."""

CUBLAS_WORKSPACE_BYTES = {"hopper": 32 * MIB, "older": 8_519_680}
"""Per handle and stream, inside the allocator. Source: pytorch#120925, pytorch#95668."""
CUBLAS_WORKSPACE_FROM_CAPABILITY = 9.0

OLD_SOFTWARE_BELOW_CAPABILITY = 8.0
"""Runs on cards below are priced with the software of their time, the dearer one: CUDA before 11.7 loads every kernel,
PyTorch 1 keeps zeroed gradients. Source: Hugging Face's single-GPU guide, fit part."""
EAGER_CONTEXT_BYTES = 1300 * MIB
"""The same with every kernel loaded at the start.
Source: pytorch#107667; Hugging Face's single-GPU guide (1,343 MB on a V100)."""
CONTEXT_BYTES = 520 * MIB
"""CUDA context with lazy loading, outside the allocator. Source: 0.52 GiB on H100 (ml-engineering), 0.3 older."""
NCCL_FIRST_GROUP_BYTES = 560 * MIB
"""First communicator of a process. Source: nccl#964 (544 MB for 2 devices, 688 MB for more), AIConfigurator 0.33."""
NCCL_NEXT_GROUP_BYTES = 350 * MIB
"""Each further one. Source: nccl#864 (1.6 GB for one group to about 6 GB for many is the upper end)."""

ALLOCATOR_SLACK_FRACTION = 0.04
"""Reserved over allocated less one: typical 1.02 to 1.10 (SimuMax 1/0.94, pith-train 1.10); expandable 0.01."""
EXPANDABLE_SLACK_FRACTION = 0.01
ALLOCATOR_SEGMENT_BYTES = 20 * MIB
"""Smallest segment the caching allocator takes for blocks of 1 to 10 MiB. Source: CUDACachingAllocator."""

COLLECTIVES_IN_FLIGHT = 28
"""Buffers of tensor-parallel collectives that wait for their stream when the host runs ahead: what the launch queue
(1,024 kernels) holds at about 40 kernels a collective. Source: median of nanotron runs without a pipeline, fit part."""
MODULES_SLACK_FRACTION = 0.1
"""Reserved over allocated less one where the host runs ahead of torch collectives. Source: nanotron runs, fit part."""
ZERO3_SETS_WAITING = 4
"""Gathered sets of DeepSpeed stage 3 that the allocator holds beside the live one. Source: Qwen 72B LoRA and Llama 8B
runs with a floor of 8 to 11 GiB above states, fit part; DeepSpeed#4093 (13 GB on 2 and on 4 devices)."""
CUT_UP_LOGITS_FRACTION = 0.5
"""Reserved beside the logits of a Hugging Face loss. Source: fsdp_qlora, median of the gap, fit part."""
