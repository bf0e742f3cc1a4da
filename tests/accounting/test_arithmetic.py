"""The arithmetic everybody quotes about optimizer state, through the `ideal` engine: the ZeRO paper's bookkeeping.

A bare count has no activations; what is asserted is exact unless a source printed it rounded.
"""

from __future__ import annotations

from typing import Any

import pytest

from accounting.estimate import estimate
from hardware.records import catalog_from_csv
from planner.requests import RequestContext, read_estimate

GB = 10**9
SEVEN_BILLION = {"parameters": 7 * GB}
STATES = ("parameters", "gradients", "master_weights", "optimizer_states")


def _no_model(slug: str) -> Any:
    raise AssertionError(f"these requests name no model: {slug}")


CONTEXT = RequestContext(catalog=catalog_from_csv(), find_model=_no_model, pools={})


def answer(model: Any, **changes: Any) -> dict[str, Any]:
    request = {
        "model": model,
        "hardware": {"accelerator": "h100-sxm5-80gb", "count": 1},
        "sharding": {"engine": "ideal", "zero_stage": 0},
        "precision": "bf16-master",
        "batch": {"sequence_length": 2048, "micro_batch_size": 1},
        "optimizer": "adamw",
        **changes,
    }
    return estimate(read_estimate(request, CONTEXT)).row(0)


def buckets(model: Any, **changes: Any) -> dict[str, int]:
    found: dict[str, int] = answer(model, **changes)["memory"]["by_bucket"]
    return found


def states(model: Any, **changes: Any) -> int:
    held = buckets(model, **changes)
    return sum(held[name] for name in STATES)


def optimizer_bytes(model: Any, **changes: Any) -> int:
    """Master copy and moments: what the optimizer alone holds."""
    held = buckets(model, **changes)
    return held["master_weights"] + held["optimizer_states"]


def test_seven_billion_with_a_master_copy_hold_112_gigabytes() -> None:
    held = buckets(SEVEN_BILLION)
    assert [held[name] for name in STATES] == [14 * GB, 14 * GB, 28 * GB, 56 * GB]
    assert states(SEVEN_BILLION) == 112 * GB
    assert optimizer_bytes(SEVEN_BILLION) == 84 * GB
    assert optimizer_bytes(SEVEN_BILLION) / states(SEVEN_BILLION) == 0.75


def test_eight_bit_adam_halves_the_optimizer_and_adds_its_block_scales() -> None:
    count = SEVEN_BILLION["parameters"]
    block_scales = 2 * 4 * -(-count // 256)
    shared_maps = 2048
    assert optimizer_bytes(SEVEN_BILLION, optimizer="adamw-8bit") == 42 * GB + block_scales + shared_maps


@pytest.mark.parametrize(
    ("optimizer", "bytes_per_parameter"),
    [("sgd", 0), ({"name": "sgd", "momentum": 0.9}, 4), ("lion", 4), ("adamw", 8)],
    ids=["sgd", "momentum", "lion", "adamw"],
)
def test_moments_of_fp32_training(optimizer: Any, bytes_per_parameter: int) -> None:
    held = buckets(SEVEN_BILLION, precision="fp32", optimizer=optimizer)
    assert held["optimizer_states"] == bytes_per_parameter * 7 * GB
    assert held["master_weights"] == 0


def test_lion_halves_the_moments_and_with_a_master_copy_takes_a_third_off() -> None:
    assert optimizer_bytes(SEVEN_BILLION, optimizer="lion") == 8 * 7 * GB
    assert optimizer_bytes(SEVEN_BILLION, optimizer="adamw") == 12 * 7 * GB


def test_pure_fp32_adam_holds_as_much_as_mixed_precision() -> None:
    held = buckets(SEVEN_BILLION, precision="fp32")
    assert held["parameters"] == 28 * GB
    assert states(SEVEN_BILLION, precision="fp32") == states(SEVEN_BILLION) == 112 * GB


def test_momentum_is_a_third_of_weight_gradient_and_buffer() -> None:
    held = buckets(SEVEN_BILLION, precision="fp32", optimizer={"name": "sgd", "momentum": 0.9})
    assert held["optimizer_states"] * 3 == held["parameters"] + held["gradients"] + held["optimizer_states"]


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_paper_figure_one(stage: int, gigabytes: float) -> None:
    """Rajbhandari 2020, Figure 1: 7.5e9 parameters over 64 devices, (2 + 2 + 12) bytes each."""
    ranks = {"dp_replicate": 64} if stage == 0 else {"dp_shard": 64}
    held = states(
        {"parameters": 7_500_000_000},
        hardware={"accelerator": "v100-sxm2-32gb", "count": 64},
        parallelism=ranks,
        sharding={"engine": "ideal", "zero_stage": stage},
        precision="fp16-master",
    )
    assert round(held / GB, 1) == gigabytes


@pytest.mark.parametrize(("parameters", "terabytes"), [(70 * GB, 1.12), (405 * GB, 6.48)])
def test_large_models(parameters: int, terabytes: float) -> None:
    assert states({"parameters": parameters}) == terabytes * 1e12


def test_adafactor_keeps_a_row_and_a_column_of_each_matrix() -> None:
    matrix = {"tensors": [{"name": "w", "shape": [4096, 11008]}]}
    held = answer(matrix, precision="fp32", optimizer="adafactor")["memory"]
    factors = (4096 + 11008) * 4
    assert held["by_bucket"]["optimizer_states"] == factors
    host = [line for line in held["lines"] if not line["device"]]
    assert sum(line["bytes_by_phase"]["optimizer_step"] for line in host) == 4, (
        "the library's step counter, on the host"
    )


def test_adafactor_of_a_bare_count_is_unknown_not_zero() -> None:
    found = answer(SEVEN_BILLION, optimizer="adafactor")
    assert found["memory"]["by_bucket"]["optimizer_states"] is None
    assert any("shapes" in warning for warning in found["warnings"])


LLAMA = {
    "architecture": {
        "family": "llama",
        "layers": 4,
        "hidden_size": 1024,
        "heads": 8,
        "kv_heads": 8,
        "head_dim": 128,
        "ffn_size": 2816,
        "gated_mlp": True,
        "vocab_size": 32000,
        "max_positions": 4096,
        "tied_embeddings": False,
        "norm": "rmsnorm",
    }
}


def test_zero_never_changes_activations() -> None:
    found = set()
    for stage in range(4):
        ranks = {"dp_replicate": 8} if stage == 0 else {"dp_shard": 8}
        held = buckets(
            LLAMA,
            hardware={"accelerator": "h100-sxm5-80gb", "count": 8},
            parallelism=ranks,
            sharding={"engine": "ideal", "zero_stage": stage},
            batch={"sequence_length": 2048, "micro_batch_size": 4},
        )
        found.add((held["activations"], held["logits_and_loss"]))
    assert len(found) == 1
    assert found.pop()[0] > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"precision": "bf16-pure"}, "no fp32 master"),
        ({"optimizer": "adamw-8bit"}, "noise"),
        ({"model": {"tensors": [{"name": "w", "shape": [64, 64]}]}, "optimizer": "adafactor"}, "rank-1"),
        ({"model": SEVEN_BILLION}, "activations"),
    ],
    ids=["bf16 does not replace a master copy", "8-bit noise", "factored moment", "activations left out"],
)
def test_a_request_that_walks_into_a_pitfall_is_told(changes: dict[str, Any], words: str) -> None:
    model = changes.pop("model", LLAMA)
    warnings = answer(model, **changes)["warnings"]
    assert any(words in warning for warning in warnings), warnings
