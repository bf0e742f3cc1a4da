"""Which constants a refit may move, how far, and which measured steps each one touches."""

from __future__ import annotations

from accounting.facts.calibration import Calibration, engine_families
from accounting.facts.calibration_priors import prior
from accounting.step_time.clock import kernel_styles, low_precision_style
from accounting.step_time.fit import Free, Observation

_DEVICE = {
    "gemm_efficiency": (0.2, 0.97),
    "attention_forward": (0.12, 0.95),
    "attention_backward": (0.1, 0.9),
    "memory_efficiency": (0.12, 0.95),
    "gemm_ramp": (0.4, float("inf")),
    "gemm_padding": (0.5, float("inf")),
    "narrow_gain": (0.3, 1.0),
    "host_factor": (0.3, float("inf")),
    "exchange_stall": (0.3, float("inf")),
    "link_factor": (0.5, 1.0),
}
_ENGINE = {
    "host_block_seconds": (1.0, float("inf")),
    "host_mixture": (0.7, float("inf")),
    "host_tensor_parallel_seconds": (1.0, float("inf")),
    "host_serial_seconds": (1.0, float("inf")),
    "host_serial_across": (1.0, float("inf")),
    "host_shard_seconds": (0.7, float("inf")),
    "host_bucket_seconds": (0.7, float("inf")),
    "sharded_overlap": (0.5, 1.0),
    "accumulated_overlap": (0.7, 1.0),
    "host_step_seconds": (1.0, float("inf")),
    "host_micro_batch_seconds": (1.0, float("inf")),
    "host_exchange_seconds": (1.0, float("inf")),
    "tensor_parallel_exposed": (0.5, 1.5),
    "tensor_parallel_across": (0.7, float("inf")),
    "expert_parallel_exposed": (0.4, 1.0),
    "pipeline_exposed": (0.5, 2.0),
    "attention": (0.3, 1.4),
    "overlap": (0.3, 1.0),
    "contention": (0.7, float("inf")),
    "link_efficiency": (0.5, 1.2),
    "jitter": (0.7, float("inf")),
}
_KERNEL = {
    "hidden": (0.6, float("inf")),
    "logits": (0.6, float("inf")),
    "scores": (0.4, float("inf")),
    "host": (0.5, float("inf")),
    "accumulate": (0.6, 12.0),
    "adapted": (0.5, float("inf")),
    "routed": (0.4, float("inf")),
    "products": (0.2, 1.35),
    "grouped": (0.3, 1.0),
    "attention": (0.2, 1.6),
}
_LOW_PRECISION = {"efficiency": (0.12, 1.02), "cast": (0.5, float("inf"))}
_FABRIC = {
    "fraction": (0.2, 0.95),
    "latency": (0.7, float("inf")),
    "ramp": (0.7, float("inf")),
    "crowding": (1.5, float("inf")),
}
"""Field -> (prior spread of its logarithm, upper end of what is physical)."""


_SPECIAL = frozenset({"link_factor", "narrow_gain", "accumulated_overlap"})
"""Constants of some rows only: 1 where a row has none of its own."""


def default_free(calibration: Calibration, observations: list[Observation]) -> tuple[Free, ...]:
    """Every constant above that is not zero and that at least one observation touches."""
    tables = (
        ("devices", calibration.devices, _DEVICE),
        ("engines", calibration.engines, _ENGINE),
        ("kernels", calibration.kernels, _KERNEL),
        ("low_precision", calibration.low_precision, _LOW_PRECISION),
    )
    found = [
        Free(table=table, row=name, field=field, spread=spread, most=most, centre=prior(table, name, field))
        for table, rows, fields in tables
        for name, row in rows.items()
        for field, (spread, most) in fields.items()
        if getattr(row, field) > 0 and (field not in _SPECIAL or getattr(row, field) < 1)
    ]
    found += [
        Free(table="fabric", row="fabric", field=field, spread=spread, most=most, centre=prior("fabric", "", field))
        for field, (spread, most) in _FABRIC.items()
    ]
    return tuple(free for free in found if any(touches(calibration, free, item) for item in observations))


def touches(calibration: Calibration, free: Free, observation: Observation) -> bool:
    """Whether a constant can move an observation's prediction."""
    scenario = observation.scenario
    machine = scenario.machine
    if free.table == "devices":
        rows = {calibration.device(item.slug, item.architecture).name for item in machine.accelerators}
        return free.row in rows
    if free.table == "engines":
        return free.row in engine_families(scenario)
    if free.table == "kernels":
        return free.row in kernel_styles(scenario)
    if free.table == "low_precision":
        return low_precision_style(scenario) == free.row
    return bool((scenario.layout.count > machine.devices_per_node).any())
