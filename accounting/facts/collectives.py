"""Constants of collectives by kind of link, fitted on measured NCCL runs; kinds are told apart by the specified rate.

t = latency + latency_per_member·(members - 1) + ramp·n/(n + ramp_bytes) + wire bytes/(fraction·specified bandwidth)

The ramp is what a bandwidth that rises with the message costs: a constant for large n, nothing for small n.
Wire bytes: n·(g - 1)/g for all-gather, reduce-scatter and all-to-all, twice that for all-reduce (nccl-tests, busbw).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """One class of link inside a scale-up domain."""

    name: str
    below: float
    """Links specified below this rate belong here. [byte/s per device and direction]"""
    fraction: float
    """Achievable share of the specified rate for large messages, all-gather and reduce-scatter."""
    all_reduce_gain: float
    """All-reduce's bus rate over that (in-switch reduction)."""
    all_to_all_gain: float
    latency: float
    """[second]"""
    latency_per_member: float
    """[second]"""
    ramp: float
    """[second]"""
    ramp_bytes: float
    error: float
    """Mean relative error over the rows fitted on."""
    source: str


_NCCL = "aiconfigurator 095f58a nccl_perf (hardware/data/nccl_busbw.csv), 512 B to 512 MiB, 2-8 GPUs; fitted 2026-11-29"

LINK_ROWS: tuple[LinkRow, ...] = (
    LinkRow(
        name="PCIe and NVLink bridges",
        below=80e9,
        fraction=0.411,
        all_reduce_gain=1.08,
        all_to_all_gain=0.83,
        latency=4.0e-6,
        latency_per_member=1.67e-6,
        ramp=11e-6,
        ramp_bytes=4.4e5,
        error=0.10,
        source=f"{_NCCL}: RTX PRO 6000 (54 rows); the L40S host of that table has no peer access and is left out",
    ),
    LinkRow(
        name="NVLink 1 to 3 and meshes",
        below=400e9,
        fraction=0.65,
        all_reduce_gain=1.06,
        all_to_all_gain=0.98,
        latency=9.2e-6,
        latency_per_member=0.93e-6,
        ramp=56e-6,
        ramp_bytes=7.3e6,
        error=0.08,
        source=f"{_NCCL}: A100 SXM (54 rows)",
    ),
    LinkRow(
        name="NVLink 4",
        below=600e9,
        fraction=0.695,
        all_reduce_gain=1.22,
        all_to_all_gain=0.91,
        latency=4.9e-6,
        latency_per_member=0.91e-6,
        ramp=31e-6,
        ramp_bytes=7.7e6,
        error=0.09,
        source=f"{_NCCL}: H100 and H200 SXM (108 rows)",
    ),
    LinkRow(
        name="NVLink 5 and faster",
        below=float("inf"),
        fraction=0.628,
        all_reduce_gain=1.14,
        all_to_all_gain=0.76,
        latency=7.8e-6,
        latency_per_member=1.27e-6,
        ramp=33e-6,
        ramp_bytes=1.28e7,
        error=0.09,
        source=f"{_NCCL}: B200, B300, GB200, GB300 (180 rows)",
    ),
)
