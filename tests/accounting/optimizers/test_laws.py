"""Golden numbers and the edges of the byte laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accounting.facts.optimizers import ALIASES, OPTIMIZERS, UnknownOptimizerError, describe, find_alias, find_optimizer
from accounting.optimizer_laws import (
    ModelFacts,
    TensorView,
    check_options,
    constant_bytes,
    needs_shapes,
    paged_bytes,
    state_bytes,
    step_flops,
    step_temporary_bytes,
    step_traffic_bytes_per_element,
)
from accounting.optimizer_laws.extents import EXTENTS
from accounting.optimizer_laws.states import PREDICATES
from accounting.optimizer_laws.storages import STORAGES


def view(*shape: int, role: str = "mlp", **fields: Any) -> TensorView:
    return TensorView(dims=tuple(np.asarray(size, dtype=np.int64) for size in shape), role=role, **fields)


def state(name: str, tensor: TensorView, width: int = 4, **options: Any) -> tuple[int, int]:
    held = state_bytes(find_optimizer(name), options, tensor, width)
    return int(held.device), int(held.host)


@pytest.mark.parametrize(
    ("name", "shape", "width", "options", "expected"),
    [
        ("adam-8bit", (1_048_576,), 4, {}, (2_129_920, 0)),
        ("adam-8bit", (4095,), 2, {}, (32_760, 0)),
        ("adam-8bit", (4096,), 2, {}, (8_320, 0)),
        ("adafactor", (4096, 11008), 4, {}, ((4096 + 11008) * 4, 4)),
        ("adafactor", (4096, 11008), 2, {}, ((4096 + 11008) * 2, 4)),
        ("adafactor", (8, 4096, 11008), 4, {}, (8 * (4096 + 11008) * 4, 4)),
        ("adafactor-hf", (4096, 11008), 2, {}, ((4096 + 11008) * 4 + 4, 0)),
        ("adafactor-hf", (4096, 11008), 2, {"beta1": 0.9}, ((4096 + 11008) * 4 + 4 + 4 * 4096 * 11008, 0)),
        ("adafactor-hf", (100,), 2, {"beta1": None}, (404, 0)),
        ("sgd", (1000,), 4, {}, (0, 0)),
        ("sgd", (1000,), 4, {"momentum": 0.9}, (4000, 0)),
        ("adamw", (1000,), 4, {}, (8000, 4)),
        ("adamw", (1000,), 2, {}, (4000, 4)),
        ("adamw", (1000,), 4, {"fused": True}, (8004, 0)),
        ("adamw", (1000,), 4, {"amsgrad": True}, (12000, 4)),
        ("adamw", (0, 4096), 4, {}, (0, 4)),
        ("adamw", (), 4, {}, (8, 4)),
        ("adamw-8bit", (0,), 4, {}, (0, 0)),
        ("lion", (1000,), 2, {}, (2000, 0)),
        ("lion-8bit", (1_048_576,), 2, {}, (1_064_960, 0)),
        ("adamw-8bit-torchao", (4096,), 2, {}, (2 * (4096 + 64 + 1024), 4)),
        ("adamw-8bit-torchao", (4097,), 2, {}, (4 * 4097, 4)),
        ("adamw-4bit", (4096,), 2, {}, (2 * (2048 + 128 + 64), 4)),
        ("adamw-fp8", (4096,), 4, {}, (2 * (4096 + 64), 4)),
        ("muon", (512, 2048), 4, {}, (4 * 512 * 2048, 0)),
        ("galore-adamw", (512, 2048), 4, {"rank": 8}, (4 * 512**2 + 2 * 4 * 8 * 2048, 0)),
        ("galore-adamw", (512, 2048), 2, {"rank": 8}, (2 * 8 * 512 + 2 * 2 * 8 * 2048, 0)),
        ("apollo-adamw", (64, 64), 4, {"rank": 128}, (4 * (128 * 64 + 2 * 128 * 64 + 1), 0)),
        ("lbfgs", (1000,), 4, {}, (202 * 4000, 0)),
        ("lbfgs", (1000,), 4, {"steps": 1, "max_iter": 4}, (8 * 4000, 0)),
        ("adashift-pytorch-optimizer", (1000,), 4, {}, (12 * 4000, 0)),
        ("lomo", (4096, 4096), 2, {}, (0, 0)),
        ("adamw-optimi", (1000,), 2, {}, (6000, 0)),
        ("adamw-optimi", (1000,), 4, {}, (8000, 0)),
    ],
)
def test_golden_state_bytes(
    name: str, shape: tuple[int, ...], width: int, options: dict[str, Any], expected: tuple[int, int]
) -> None:
    assert state(name, view(*shape), width, **options) == expected


def test_an_fp32_master_turns_bf16_moments_into_fp32_ones() -> None:
    # What is stepped is the master, so its width is what counts.
    assert state("adamw", view(1000), width=4)[0] == 2 * state("adamw", view(1000), width=2)[0]


def test_a_precision_recipe_may_name_the_dtype_of_the_moments_but_not_of_scalars_or_quantised_states() -> None:
    adamw = state_bytes(find_optimizer("adamw"), {}, view(1000), 4, state_itemsize=1)
    assert (int(adamw.device), int(adamw.host)) == (2000, 4)
    quantised = state_bytes(find_optimizer("adamw-8bit"), {}, view(1_048_576), 4, state_itemsize=2)
    assert int(quantised.device) == 2_129_920


def test_embeddings_keep_32_bit_states_where_the_override_is_on() -> None:
    embedding = view(32000, 4096, role="embedding")
    assert state("adamw-8bit", embedding, embeddings_32bit=True)[0] == 8 * 32000 * 4096
    assert state("adamw-8bit", embedding)[0] < 3 * 32000 * 4096


def test_hybrids_step_embeddings_head_and_vectors_with_adamw() -> None:
    for other in (view(512, 64, role="embedding"), view(512, 64, role="head"), view(64), view(4, 8, 8)):
        assert state("muon", other) == (8 * int(other.elements), 4)


def test_constants_count_once_per_optimizer_or_group() -> None:
    assert constant_bytes(find_optimizer("adamw-8bit"), {}) == (2048, 0)
    assert constant_bytes(find_optimizer("adamw"), {"tensor_lr": True}, groups=2) == (0, 8)
    assert constant_bytes(find_optimizer("adamw"), {}, groups=2) == (0, 0)
    assert constant_bytes(find_optimizer("adamw-8bit-torchao"), {}, groups=2) == (0, 8)


def test_arrays_of_shards_give_the_same_as_one_by_one() -> None:
    sides = np.array([0, 1, 3, 63, 64, 100, 512, 4096, 9000], dtype=np.int64)
    facts = ModelFacts(hidden_size=64, heads=4, elements=10_000)
    for optimizer in OPTIMIZERS.values():
        together = state_bytes(optimizer, {}, TensorView(dims=(sides, sides[::-1]), role="mlp", model=facts), 2)
        assert together.total.dtype == np.int64
        for index in range(len(sides)):
            alone = view(int(sides[index]), int(sides[::-1][index]), model=facts)
            expected = int(state_bytes(optimizer, {}, alone, 2).total)
            assert int(np.broadcast_to(together.total, sides.shape)[index]) == expected, optimizer.name


def test_large_tensors_do_not_wrap() -> None:
    assert state("adamw", view(200_000, 200_000))[0] == 8 * 200_000**2


def test_paged_states_are_those_of_large_tensors_without_their_scales() -> None:
    paged = find_optimizer("paged-adamw-8bit")
    assert int(paged_bytes(paged, {}, view(1_048_576), 2)) == 2 * 1_048_576
    assert int(paged_bytes(paged, {}, view(99_999), 2)) == 0
    assert int(paged_bytes(find_optimizer("paged-adamw"), {}, view(1_048_576), 2)) == 8 * 1_048_576
    assert int(paged_bytes(find_optimizer("adamw-8bit"), {}, view(1_048_576), 2)) == 0


def test_shapes_are_needed_exactly_where_a_count_does_not_decide() -> None:
    shaped = {"adafactor", "adafactor-hf", "muon", "galore-adamw", "soap", "came", "adam-mini"}
    assert all(needs_shapes(find_optimizer(name)) for name in shaped)
    assert not any(needs_shapes(find_optimizer(name)) for name in ("sgd", "adamw", "lion", "adamw-8bit", "lomo"))


def test_the_step_temporary_follows_the_implementation() -> None:
    adamw, views = find_optimizer("adamw"), [(view(100, 10), 3), (view(5000), 1)]
    assert int(step_temporary_bytes(adamw, {}, views, 4)) == 4 * 8000
    assert int(step_temporary_bytes(adamw, {"foreach": False}, views, 4)) >= 4 * 5000
    assert int(step_temporary_bytes(adamw, {"fused": True}, views, 4)) == 0
    muon = find_optimizer("muon")
    assert (
        int(step_temporary_bytes(muon, {}, [(view(64, 64), 1), (view(1_000_000, role="embedding"), 1)], 4)) >= 4_000_000
    )


def test_traffic_is_between_the_fused_minimum_and_the_unfused_kernels() -> None:
    adamw = find_optimizer("adamw")
    fused = step_traffic_bytes_per_element(adamw, {"fused": True}, parameter_itemsize=4, gradient_itemsize=4)
    unfused = step_traffic_bytes_per_element(adamw, {}, parameter_itemsize=4, gradient_itemsize=4)
    assert (fused, unfused) == (pytest.approx(28.0, abs=1e-5), 80.0)
    with_copy = {"parameter_itemsize": 4, "gradient_itemsize": 4, "copy_itemsize": 2}
    assert step_traffic_bytes_per_element(adamw, {"fused": True}, **with_copy) == pytest.approx(30.0, abs=1e-5)
    eight_bit = find_optimizer("adamw-8bit")
    assert step_traffic_bytes_per_element(eight_bit, {}, parameter_itemsize=2, gradient_itemsize=2) == pytest.approx(
        10.0625, abs=1e-3
    )


def test_newton_schulz_costs_matrix_multiplications_on_hidden_matrices_only() -> None:
    muon = find_optimizer("muon")
    assert float(step_flops(muon, {}, view(100, 400))) == 5 * (4 * 100**2 * 400 + 2 * 100**3)
    assert float(step_flops(muon, {}, view(100, 400, role="embedding"))) == 0.0
    assert float(step_flops(find_optimizer("adamw"), {}, view(100, 400))) == 0.0


@pytest.mark.parametrize(
    ("name", "options", "codes"),
    [
        ("sgd", {"momentum": 0.9, "nesterov": True}, []),
        ("sgd", {"nesterov": True}, ["contradiction"]),
        ("sgd", {"momentum": 1.0}, ["out_of_range"]),
        ("sgd", {"momentum": "0.9", "nesterov": 1}, ["invalid_type", "invalid_type"]),
        ("sgd", {"momentum": True}, ["invalid_type"]),
        ("sgd", {"momentum": float("nan")}, ["out_of_range"]),
        ("sgd", {"momentun": 0.9}, ["unknown_member"]),
        ("sgd-8bit", {}, ["required"]),
        ("sgd-8bit", {"momentum": 0}, ["out_of_range"]),
        ("adamw", {"fused": True, "foreach": True}, ["contradiction"]),
        ("adafactor-hf", {"beta1": None}, []),
        ("adamw", {"amsgrad": None}, ["invalid_type"]),
        ("galore-adamw", {"rank": 0}, ["out_of_range"]),
        ("galore-adamw", {"rank": 8.5}, ["invalid_type"]),
        ("galore-adamw", {"targets": ["attn", 3]}, ["invalid_type"]),
        ("soap-heavyball", {"storage": "fp4"}, ["invalid_choice"]),
    ],
)
def test_options_answer_every_fault_at_once(name: str, options: dict[str, Any], codes: list[str]) -> None:
    faults = check_options(find_optimizer(name), options)
    assert [fault.code for fault in faults] == codes
    assert all(fault.option in fault.detail or fault.code == "contradiction" for fault in faults)


def test_unknown_names_list_the_nearest_and_spelling_does_not_matter() -> None:
    with pytest.raises(UnknownOptimizerError) as caught:
        find_optimizer("adamw8bits")
    assert "adamw-8bit" in caught.value.nearest
    assert find_optimizer(" AdamW_8bit ").name == "adamw-8bit"
    assert find_alias("adamw_bnb_8bit").options == {"embeddings_32bit": True}


CONTRACT_NAMES = (
    *("sgd", "adam", "adamw", "adamw-8bit", "paged-adamw", "paged-adamw-8bit", "adamw-8bit-torchao", "adamw-4bit"),
    *("adamw-fp8", "adafactor", "adafactor-hf", "lion", "lion-8bit", "muon", "galore-adamw", "apollo-adamw"),
    *("adam-mini", "came", "ademamix", "lomo"),
)


def test_every_name_of_the_contract_is_a_row() -> None:
    assert set(CONTRACT_NAMES) <= set(OPTIMIZERS)


def test_names_and_aliases_are_unique_slugs() -> None:
    assert not set(ALIASES) & set(OPTIMIZERS)
    for name in (*OPTIMIZERS, *ALIASES):
        assert name == name.lower().replace("_", "-").replace(" ", "-")
    assert len(OPTIMIZERS) == len({(row.library, row.title) for row in OPTIMIZERS.values()})


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_row_names_real_laws_a_source_and_its_state_rule(name: str) -> None:
    row = OPTIMIZERS[name]
    assert row.source
    assert row.library_version
    assert row.state_rule in {"parameter", "fp32", "fixed"}
    options = {option.name for option in row.options}
    for slot in row.slots:
        assert slot.extent in EXTENTS
        assert slot.storage in STORAGES
        assert slot.where in PREDICATES
        condition = (slot.when or "").lstrip("!?").partition("=")[0]
        assert condition in options | {""}, f"{name}: {slot.name} asks for an option the row does not have"
    assert describe(row)["name"] == name
    assert not check_options(
        row, {option.name: option.default for option in row.options if not option.required}
    ) or any(option.required or option.name in {"fused", "foreach"} for option in row.options)
