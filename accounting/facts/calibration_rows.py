"""The shipped constants. Written by the fit; edit by refitting, with the report error stated beside it."""

from __future__ import annotations

from accounting.facts.calibration_types import DeviceRow, EngineRow, FabricRow, KernelRow, LowPrecisionRow

_DATE = "2026-11-29"
_TRUTH = "published training steps, fit part"


def _device(name: str, **values: object) -> DeviceRow:
    base = dict(
        gemm_efficiency=0.8,
        gemm_padding=60.0,
        gemm_ramp=100.0,
        kernel_seconds=4e-6,
        attention_forward=0.55,
        attention_backward=0.45,
        attention_ramp=300.0,
        memory_efficiency=0.8,
        band=(0.8, 1.3),
        rows=0,
        source=_TRUTH,
        date=_DATE,
    )
    return DeviceRow(name=name, **(base | values))  # type: ignore[arg-type]


DEVICE_ROWS = (
    _device("volta", architectures=("volta", "turing", "pascal"), gemm_efficiency=0.7),
    _device("ampere", architectures=("ampere",), gemm_efficiency=0.84),
    _device(
        "ampere-consumer",
        slugs=("rtx-3090", "rtx-3090-ti", "rtx-a5000", "rtx-a6000", "a10", "a10g", "a40"),
        gemm_efficiency=0.9,
    ),
    _device("ada", architectures=("ada",), gemm_efficiency=0.85),
    _device("ada-professional", slugs=("rtx-6000-ada", "l40", "l40s", "l4"), gemm_efficiency=0.55, band=(0.6, 2.0)),
    _device("hopper", architectures=("hopper",), gemm_efficiency=0.76, attention_forward=0.5, attention_backward=0.38),
    _device(
        "blackwell",
        architectures=("blackwell", "blackwell ultra", "blackwell (gb202)"),
        gemm_efficiency=0.66,
        attention_forward=0.6,
        attention_backward=0.5,
    ),
    _device("generic", gemm_efficiency=0.6),
)


def _engine(name: str, **values: object) -> EngineRow:
    base = dict(
        host_block_seconds=200e-6,
        host_backward=1.3,
        host_tensor_parallel_seconds=1e-3,
        host_serial_seconds=0.0,
        host_step_seconds=5e-3,
        host_micro_batch_seconds=1e-3,
        host_exchange_seconds=3e-4,
        tensor_parallel_exposed=1.0,
        expert_parallel_exposed=0.8,
        tensor_parallel_across=1.3,
        link_efficiency=0.9,
        pipeline_exposed=0.5,
        overlap=0.85,
        contention=0.1,
        jitter=0.005,
        rows=0,
        source=_TRUTH,
        date=_DATE,
    )
    return EngineRow(name=name, **(base | values))  # type: ignore[arg-type]


ENGINE_ROWS = (
    _engine("torch", host_block_seconds=9e-4, link_efficiency=0.65, tensor_parallel_exposed=1.3),
    _engine("fsdp1", host_block_seconds=5e-4, link_efficiency=0.65),
    _engine("deepspeed", link_efficiency=0.12, host_block_seconds=5e-4),
    _engine(
        "megatron",
        host_tensor_parallel_seconds=2e-3,
        host_serial_seconds=1.2e-3,
        link_efficiency=0.5,
        tensor_parallel_across=1.8,
    ),
    _engine("megatron-core", tensor_parallel_exposed=0.45, link_efficiency=1.0),
)
KERNEL_ROWS = (
    KernelRow(
        name="eager",
        hidden=30.0,
        hidden_dropout=10.0,
        gated=10.0,
        plain=8.0,
        rotary=12.0,
        backward=2.0,
        logits=20.0,
        scores=13.0,
        host=1.0,
        accumulate=10.0,
        routed=24.0,
        products=0.88,
        grouped=0.7,
        attention=1.0,
        source=_TRUTH,
    ),
    KernelRow(
        name="core",
        hidden=16.0,
        hidden_dropout=6.0,
        gated=6.0,
        plain=6.0,
        rotary=5.0,
        backward=2.0,
        logits=10.0,
        scores=9.0,
        host=0.7,
        accumulate=4.0,
        routed=16.0,
        products=1.08,
        grouped=0.55,
        attention=1.3,
        source=_TRUTH,
    ),
    KernelRow(
        name="fused",
        hidden=20.0,
        hidden_dropout=10.0,
        gated=6.0,
        plain=6.0,
        rotary=6.0,
        backward=2.0,
        logits=14.0,
        scores=9.0,
        host=0.7,
        accumulate=8.0,
        routed=20.0,
        products=0.92,
        grouped=0.7,
        attention=1.0,
        source=_TRUTH,
    ),
    KernelRow(
        name="compiled",
        hidden=12.0,
        hidden_dropout=4.0,
        gated=6.0,
        plain=4.0,
        rotary=4.0,
        backward=1.5,
        logits=10.0,
        scores=9.0,
        host=0.3,
        accumulate=10.0,
        routed=16.0,
        products=0.98,
        grouped=0.7,
        attention=1.0,
        source=_TRUTH,
    ),
)
LOW_PRECISION_ROWS = (
    LowPrecisionRow(name="fp8", efficiency=1.05, cast=4.0, source=_TRUTH),
    LowPrecisionRow(name="mxfp8", efficiency=0.8, cast=4.0, source=_TRUTH),
    LowPrecisionRow(name="nvfp4", efficiency=0.6, cast=4.0, source=_TRUTH),
)
FABRIC_ROW = FabricRow(fraction=0.75, latency=20e-6, ramp=3e-4, ramp_bytes=16e6, crowding=0.1, source=_TRUTH)
