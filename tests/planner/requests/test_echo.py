"""A scenario written as a request is read back as the same scenario."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from accounting.scenario import Scenario
from planner.requests import estimate_request, read_estimate
from tests.planner.requests.samples import CONTEXT, ESTIMATE, MINIMAL, put


def same_columns(one: Any, other: Any) -> bool:
    for item in fields(one):
        left, right = getattr(one, item.name), getattr(other, item.name)
        if isinstance(left, np.ndarray):
            if not np.array_equal(left, right, equal_nan=left.dtype.kind == "f"):
                return False
        elif left != right:
            return False
    return True


REQUESTS: tuple[dict[str, Any], ...] = (
    ESTIMATE,
    MINIMAL,
    put(
        MINIMAL,
        ("/hardware/count", 16),
        ("/parallelism", {"pp": 4, "vpp": 2, "tp": 2}),
        ("/sharding/engine", "megatron"),
    ),
    put(MINIMAL, ("/pipeline", {"layout": [10, 22]}), ("/hardware/count", 2), ("/parallelism/pp", 2)),
    put(MINIMAL, ("/precision", {"compute": "bf16", "parameters": "fp32", "reduce": "bf16"})),
    put(MINIMAL, ("/optimizer", {"name": "sgd", "momentum": 0.9}), ("/recompute", {"mode": "full", "every": 2})),
    put(MINIMAL, ("/recompute", {"mode": "selective", "modules": ["mlp"]}), ("/headroom", 0.1)),
    put(MINIMAL, ("/adapter", {"method": "qlora", "targets": ["q_proj"]}), ("/options/target_modules", ["q_proj"])),
    put(MINIMAL, ("/extra_models", [{"role": "ema", "dtype": "fp32"}]), ("/batch/packed", True)),
    put(
        MINIMAL,
        ("/offload/optimizer", "cpu"),
        ("/options", {"loss": "chunked", "inter_node_gbps": 400, "dropout": 0.1}),
    ),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_a_request_survives_the_round_trip(request_: dict[str, Any]) -> None:
    first = read_estimate(request_, CONTEXT)
    written = estimate_request(first, 0, "llama-3-8b", CONTEXT.catalog)
    second: Scenario = read_estimate(json.loads(json.dumps(written)), CONTEXT)
    assert first.recipe == second.recipe
    assert same_columns(first.layout, second.layout)
    assert same_columns(first.machine, second.machine)
    assert second.assumptions == ()
    assert estimate_request(second, 0, "llama-3-8b", CONTEXT.catalog) == written


def test_a_machine_cut_from_another_follows_from_the_price() -> None:
    """An instance without machine data is written by its offer alone, and read back as the same machine."""
    catalog = CONTEXT.catalog
    offer = next(
        row for row in catalog.offers if (node := catalog.node_of_offer(row)[0]) and node.slug not in catalog.node_types
    )
    place = {"provider": offer.provider, "region": offer.region, "instance": offer.instance}
    hardware = {
        "accelerator": offer.accelerator,
        "offer": {**place, "pricing": offer.pricing_kind, "commitment": offer.commitment},
    }
    first = read_estimate(put(MINIMAL, ("/hardware", hardware), ("/sharding/engine", "ideal")), CONTEXT)
    written = estimate_request(first, 0, "llama-3-8b", catalog)
    assert written["hardware"]["node_type"] is None
    assert same_columns(first.machine, read_estimate(written, CONTEXT).machine)
