"""Where a refit starts: each constant before any training step was measured, from kernel tables and papers.

A refit is pulled towards these, never towards the last refit: a constant that nothing touches falls back here.
Source: digests of measured kernels (aiconfigurator 0.12.0, SimuMax), Dao 2023, nccl-tests; host times by profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PRIORS: Mapping[tuple[str, str], float] = MappingProxyType(
    {
        ("devices", "gemm_efficiency"): 0.7,
        ("devices", "gemm_padding"): 60.0,
        ("devices", "gemm_ramp"): 115.0,
        ("devices", "attention_forward"): 0.55,
        ("devices", "attention_backward"): 0.45,
        ("devices", "memory_efficiency"): 0.8,
        ("devices", "narrow_gain"): 0.85,
        ("devices", "host_factor"): 1.0,
        ("devices", "link_factor"): 0.4,
        ("devices", "exchange_stall"): 0.3,
        ("engines", "host_block_seconds"): 0.0002,
        ("engines", "host_mixture"): 4.0,
        ("engines", "host_tensor_parallel_seconds"): 0.001,
        ("engines", "host_serial_seconds"): 0.001,
        ("engines", "host_serial_across"): 0.2,
        ("engines", "host_shard_seconds"): 0.003,
        ("engines", "host_bucket_seconds"): 0.0001,
        ("engines", "sharded_overlap"): 0.6,
        ("engines", "accumulated_overlap"): 0.3,
        ("engines", "host_step_seconds"): 0.005,
        ("engines", "host_micro_batch_seconds"): 0.001,
        ("engines", "host_exchange_seconds"): 0.0003,
        ("engines", "tensor_parallel_exposed"): 1.0,
        ("engines", "tensor_parallel_across"): 1.3,
        ("engines", "expert_parallel_exposed"): 0.8,
        ("engines", "link_efficiency"): 0.7,
        ("engines", "pipeline_exposed"): 0.5,
        ("engines", "attention"): 1.0,
        ("engines", "overlap"): 0.85,
        ("engines", "contention"): 0.1,
        ("engines", "jitter"): 0.005,
        ("kernels", "hidden"): 20.0,
        ("kernels", "logits"): 20.0,
        ("kernels", "scores"): 9.0,
        ("kernels", "host"): 0.7,
        ("kernels", "accumulate"): 10.0,
        ("kernels", "adapted"): 6.0,
        ("kernels", "routed"): 10.0,
        ("kernels", "products"): 1.0,
        ("kernels", "grouped"): 0.7,
        ("kernels", "attention"): 1.0,
        ("low_precision", "efficiency"): 0.95,
        ("low_precision", "cast"): 4.0,
        ("fabric", "fraction"): 0.85,
        ("fabric", "latency"): 20e-6,
        ("fabric", "ramp"): 300e-6,
        ("fabric", "crowding"): 0.02,
    }
)
"""(table, field) -> value for every row of the table, unless the row has its own below."""

OWN_PRIORS: Mapping[tuple[str, str, str], float] = MappingProxyType(
    {
        ("devices", "ampere", "gemm_efficiency"): 0.84,
        ("devices", "ampere-consumer", "gemm_efficiency"): 0.9,
        ("devices", "ada", "gemm_efficiency"): 0.85,
        ("devices", "hopper", "gemm_efficiency"): 0.72,
        ("devices", "blackwell", "gemm_efficiency"): 0.58,
        ("devices", "ampere-consumer", "attention_forward"): 0.8,
        ("devices", "ampere-consumer", "attention_backward"): 0.7,
        ("devices", "ada", "attention_forward"): 0.8,
        ("devices", "ada", "attention_backward"): 0.7,
        ("devices", "hopper", "attention_forward"): 0.45,
        ("devices", "hopper", "attention_backward"): 0.35,
        ("devices", "blackwell", "attention_forward"): 0.6,
        ("devices", "blackwell", "attention_backward"): 0.5,
        ("engines", "fsdp1", "host_block_seconds"): 0.0005,
        ("engines", "fsdp2", "host_step_seconds"): 0.05,
        ("engines", "fsdp2", "tensor_parallel_exposed"): 1.0,
        ("engines", "deepspeed", "host_block_seconds"): 0.0005,
        ("engines", "deepspeed", "link_efficiency"): 0.3,
        ("engines", "megatron-core", "tensor_parallel_exposed"): 0.5,
        ("engines", "megatron-core", "host_tensor_parallel_seconds"): 0.0003,
        ("engines", "megatron-lm", "tensor_parallel_exposed"): 0.75,
        ("engines", "megatron-lm", "host_tensor_parallel_seconds"): 0.0003,
        ("engines", "megatron-lm", "link_efficiency"): 0.9,
        ("engines", "fsdp2", "link_efficiency"): 0.85,
        ("engines", "megatron-core", "link_efficiency"): 0.9,
        ("kernels", "eager", "hidden"): 30.0,
        ("kernels", "compiled", "hidden"): 12.0,
        ("kernels", "fused", "logits"): 40.0,
        ("kernels", "megatron-lm", "hidden"): 18.0,
        ("kernels", "megatron-lm", "logits"): 40.0,
        ("kernels", "megatron-lm", "accumulate"): 2.0,
        ("kernels", "core", "hidden"): 15.0,
        ("kernels", "core", "logits"): 10.0,
        ("kernels", "core", "accumulate"): 2.0,
        ("kernels", "core", "products"): 1.22,
        ("kernels", "core", "attention"): 1.25,
        ("kernels", "compiled", "logits"): 10.0,
        ("kernels", "compiled", "adapted"): 3.0,
        ("kernels", "eager", "adapted"): 8.0,
        ("kernels", "eager", "scores"): 13.0,
        ("kernels", "eager", "host"): 1.0,
        ("kernels", "compiled", "host"): 0.3,
        ("low_precision", "fp8-torch", "cast"): 6.0,
        ("low_precision", "fp8-torch-rowwise", "cast"): 6.0,
        ("low_precision", "fp8-torch-rowwise", "efficiency"): 0.85,
        ("low_precision", "mxfp8-torch", "cast"): 6.0,
        ("low_precision", "nvfp4", "efficiency"): 0.6,
    }
)
"""(table, row, field) -> value. Megatron-Core adds gradients inside the product (gradient_accumulation_fusion) and runs
cuDNN's attention."""


def prior(table: str, row: str, field: str) -> float:
    """The constant before any fit. Raises KeyError for a constant that no refit may move."""
    own = OWN_PRIORS.get((table, row, field))
    return PRIORS[table, field] if own is None else own
