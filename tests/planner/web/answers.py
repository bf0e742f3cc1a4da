"""A whole plan answer in the contract's shape, small enough to check by hand: buckets sum to the byte."""

from __future__ import annotations

import copy
from typing import Any

GIB = 1 << 30
CAPACITY = 85_520_809_984
PARAMETERS = 8_030_261_248
RANKS = 16

BUCKETS = {
    "parameters": 4 * PARAMETERS // RANKS,
    "gradients": 4 * PARAMETERS // RANKS,
    "master_weights": 0,
    "optimizer_states": 8 * PARAMETERS // RANKS,
    "activations": 168_064 * 8192 * 32,
    "logits_and_loss": 12 * 8192 * 128_256,
    "communication_buffers": 3_844_620_288,
    "temporaries": 704_643_072,
    "framework": 33_554_432,
}
ALLOCATED = sum(BUCKETS.values())
RESERVED = ALLOCATED + 2_093_796_556
DEVICE = RESERVED + 1_277_752_770
BAND = [DEVICE - 2 * GIB, DEVICE + 4 * GIB]

PLAN_REQUEST: dict[str, Any] = {
    "model": "llama-3-8b",
    "workload": {"tokens": 15_000_000_000, "sequence_length": 8192, "global_batch_tokens": 1_048_576},
    "hardware": {"accelerators": ["h100-sxm5-80gb", "h200-sxm-141gb"], "pricing": ["on-demand"], "max_count": 64},
    "optimizers": ["adamw"],
    "precisions": ["bf16-mixed"],
    "engines": ["fsdp2", "deepspeed"],
    "constraints": {"deadline_hours": 48, "memory_headroom": 0.05},
    "objective": "cost",
    "options": 10,
}

NAMES = {"h100-sxm5-80gb": "H100 SXM5 80\u00a0GB", "h200-sxm-141gb": "H200 SXM 141\u00a0GB"}


COMMUNICATION: dict[str, Any] = {
    "bytes_per_step_per_device": 233_027_758_080,
    "by_collective": {
        "all_gather": 112_573_839_360,
        "reduce_scatter": 120_453_918_720,
        "all_reduce": 0,
        "all_to_all": 0,
        "point_to_point": 0,
    },
    "by_link": {
        "intra": {
            "bytes_per_step_per_device": 203_899_288_320,
            "exposed_seconds": 0.0156,
            "half_speed_adds_seconds": 0.2136,
        },
        "inter": {
            "bytes_per_step_per_device": 29_128_469_760,
            "exposed_seconds": 0.0,
            "half_speed_adds_seconds": 0.1824,
        },
        "host": {"bytes_per_step_per_device": 0, "exposed_seconds": 0.0, "half_speed_adds_seconds": 0.0},
    },
    "inter_node_gbps": 3200.0,
    "bound_below_gbps": 398.3,
}
RUN = {
    "steps": 14306,
    "goodput": 0.9987,
    "checkpoint_interval_seconds": 104_400.0,
    "billed_hours": 36.25,
    "usd_by_the_second": 1730.4,
    "usd_per_million_tokens": 0.1154,
    "energy_kwh": 405.9,
}


def estimate_request(accelerator: str = "h100-sxm5-80gb", count: int = RANKS, micro: int = 1) -> dict[str, Any]:
    """The estimate request of an option."""
    return {
        "model": "llama-3-8b",
        "hardware": {"accelerator": accelerator, "count": count},
        "parallelism": {"dp_replicate": 1, "dp_shard": count, "tp": 1, "cp": 1, "pp": 1, "ep": 1},
        "sharding": {"engine": "fsdp2", "zero_stage": 3},
        "precision": "bf16-mixed",
        "optimizer": "adamw",
        "batch": {"sequence_length": 8192, "micro_batch_size": micro, "global_batch_size": 128},
        "recompute": "none",
        "attention": "flash",
        "headroom": 0.05,
    }


def lines_of() -> list[dict[str, Any]]:
    """One ledger line for each bucket that holds something."""
    return [
        {
            "bucket": bucket,
            "bytes_by_phase": {"forward": size // 2, "backward": size, "optimizer_step": size // 4},
            "dtype": "fp32",
            "formula": f"memory.{bucket}",
            "divisor": RANKS if bucket in ("parameters", "gradients", "optimizer_states") else 1,
            "device": True,
            "note": "",
        }
        for bucket, size in BUCKETS.items()
        if size
    ]


def estimate_answer() -> dict[str, Any]:
    """The whole estimate answer of the first option."""
    lines = lines_of()
    return {
        "engine_version": "0.4.2",
        "model": {"slug": "llama-3-8b", "parameters": PARAMETERS, "trainable_parameters": PARAMETERS},
        "memory": {
            "lines": lines,
            "by_bucket": BUCKETS,
            "by_phase": {
                "initialisation": 4_080_218_931,
                "forward": 66_464_000_000,
                "backward": ALLOCATED,
                "optimizer_step": 10_093_000_000,
                "checkpoint_save": 9_985_798_963,
            },
            "moment_by_phase": {"forward": "loss", "backward": "loss", "optimizer_step": "optimizer"},
            "peak_phase": "backward",
            "peak_allocated_bytes": ALLOCATED,
            "peak_reserved_bytes": RESERVED,
            "device_bytes": DEVICE,
            "device_bytes_band": BAND,
            "capacity_bytes": CAPACITY,
            "fits": True,
            "headroom_bytes": CAPACITY - DEVICE,
            "host_bytes_per_node": 12_670_153_523,
            "nvme_bytes_per_node": 0,
            "worst_rank": {"pipeline_stage": 0, "why": "every stage is the same"},
            "stages": [],
            "checkpoint_bytes": {"weights": 2 * PARAMETERS, "full": 12 * PARAMETERS},
        },
        "time": {
            "step_seconds": 9.10,
            "parts": {
                "compute": 7.41,
                "memory_bound": 0.93,
                "exposed_communication": 0.71,
                "pipeline_bubble": 0.0,
                "optimizer": 0.05,
                "offload": 0.0,
            },
            "tokens_per_second": 115_228.1,
            "tokens_per_second_per_device": 7201.8,
            "mfu": 0.4441,
            "hfu": 0.4441,
        },
        "communication": COMMUNICATION,
        "cost": {"usd_per_hour": 47.84, "usd_per_million_tokens": 0.1153, "offer": None},
        "assumptions": ["Flash attention on, one FSDP unit per decoder layer."],
        "warnings": ["The A100 SXM4 80 GB price is 23 days old (5 Nov 2026)."],
        "advice": [{"change": "loss=fused", "saves_bytes": 12_607_488_000}],
    }


def option(rank: int, count: int, hours: float, usd: float, accelerator: str = "h100-sxm5-80gb") -> dict[str, Any]:
    """One option; only the first carries the fixture's exact bytes."""
    device = DEVICE - (rank - 1) * GIB
    return {
        "rank": rank,
        "estimate": estimate_request(accelerator, count),
        "hours": hours,
        "usd": usd,
        "usd_per_hour": usd / hours,
        "step_seconds": hours * 3600 / 14306,
        "device_bytes": device,
        "headroom_bytes": CAPACITY - device,
        "explanation": f"Option {rank} costs {usd:.0f} dollars.",
        "exports": {},
        "memory": {
            "device_bytes": device,
            "device_bytes_band": [device - 2 * GIB, device + 4 * GIB],
            "capacity_bytes": CAPACITY,
            "peak_allocated_bytes": ALLOCATED,
            "peak_phase": "backward",
        },
        "time": {"step_seconds": hours * 3600 / 14306, "tokens_per_second_per_device": 7201.8, "mfu": 0.4441},
        "run": RUN,
        "offer": {"provider": "Lambda", "pricing": "on-demand", "region": "us-east"},
        "nodes": count // 8,
    }


OPTIONS = [
    option(1, 16, 36.17, 1730.4),
    option(2, 32, 18.55, 1774.9),
    option(3, 64, 9.62, 1840.9),
    option(4, 16, 35.43, 1984.1, "h200-sxm-141gb"),
    option(5, 64, 5.7, 2184.0, "h200-sxm-141gb"),
]


def points() -> list[dict[str, Any]]:
    """The scatter: the options, and dominated candidates above them."""
    found = [
        {
            "hours": row["hours"],
            "usd": row["usd"],
            "accelerator": row["estimate"]["hardware"]["accelerator"],
            "count": row["estimate"]["hardware"]["count"],
            "frontier": row["rank"] != 4,
            "rank": row["rank"],
            "fits": True,
        }
        for row in OPTIONS
    ]
    for count in range(8, 65, 8):
        for place, card in enumerate(NAMES):
            hours = 36.2 * 16 / count * (1.3 - 0.2 * place)
            usd = 2300 + 300 * place + 4 * count
            point = {"hours": hours, "usd": usd, "accelerator": card, "count": count}
            found.append(point | {"frontier": False, "rank": None, "fits": True})
    return found


def plan_answer() -> dict[str, Any]:
    """A finished plan, a fresh copy to be changed by a test."""
    return copy.deepcopy(
        {
            "recommendation": OPTIONS[0] | {"answer": estimate_answer()},
            "options": OPTIONS,
            "frontier": [row for row in OPTIONS if row["rank"] != 4],
            "points": points(),
            "why": ["Cheapest of 388 options that meet the 48 h deadline.", "The deadline binds, not memory."],
            "why_not": [
                {"kind": "no", "text": "8 \u00d7 H100 costs $1,713 but takes 71.6 h: 23.6 h late."},
                {"kind": "unknown", "text": "36 candidates have no price and were left out."},
            ],
            "what_if": [
                {
                    "change": "Full recompute",
                    "memory_bytes": -42_090_679_501,
                    "hours": 10.4,
                    "usd": 499.0,
                    "fits": True,
                },
                {"change": "Micro-batch 2", "memory_bytes": 59_485_000_000, "hours": None, "usd": None, "fits": False},
                {"change": "Spot price", "memory_bytes": 0, "hours": None, "usd": None, "fits": None},
            ],
            "rejections": {"memory": 812, "deadline": 448, "divisibility": 388, "price_unknown": 36},
            "nearest_misses": [],
            "search": {"candidates": 2072, "seconds": 1.3},
            "provenance": {
                "engine_version": "0.4.2",
                "catalog_revision": "118",
                "price_dates": ["2026-11-05", "2026-11-28"],
                "request_digest": "9f3c41d2aa",
            },
        }
    )


def infeasible_answer() -> dict[str, Any]:
    """A plan that nothing fits, with its closest candidate explained."""
    explained = estimate_answer()
    memory = explained["memory"]
    memory["capacity_bytes"] = 64 * GIB
    memory["headroom_bytes"] = 64 * GIB - DEVICE
    memory["fits"] = False
    answer = plan_answer()
    answer["recommendation"] = None
    answer["options"] = answer["frontier"] = answer["points"] = []
    answer["what_if"] = [
        {
            "change": "8-bit AdamW",
            "memory_bytes": -8 * GIB,
            "hours": 40.2,
            "usd": 1923.0,
            "fits": True,
            "estimate": estimate_request(),
        }
    ]
    answer["nearest_misses"] = [
        {
            "estimate": estimate_request(),
            "reason": "memory",
            "misses_by_bytes": DEVICE - int(64 * GIB * 0.95),
            "misses_by_hours": None,
            "misses_by_usd": None,
            "hours": 36.17,
            "usd": 1730.4,
            "device_bytes": DEVICE,
            "answer": explained,
        }
    ]
    return answer
