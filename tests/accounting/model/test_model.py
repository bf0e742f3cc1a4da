"""A model from each of its four doors."""

from typing import Any

import pytest

from accounting.model import ConfigError, model_from_count, model_from_tensors


def faults_of(tensors: Any) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as error:
        model_from_tensors(tensors)
    return [(fault.pointer, fault.code) for fault in error.value.faults]


def test_a_bare_count_knows_its_count_and_nothing_else() -> None:
    model = model_from_count(7_000_000_000)
    assert (model.parameters, model.trainable_parameters) == (7_000_000_000, 7_000_000_000)
    assert model.inventory is None
    assert model.active_parameters is None
    assert model.embedding_parameters is None


@pytest.mark.parametrize("count", [0, -1, True, 7e9, "7B", None, 2**57])
def test_a_count_is_a_positive_whole_number(count: Any) -> None:
    with pytest.raises(ConfigError) as error:
        model_from_count(count)
    assert [fault.pointer for fault in error.value.faults] == [""]


def test_a_convolution_and_a_scalar_count_exactly() -> None:
    model = model_from_tensors(
        [
            {"name": "conv1.weight", "shape": [64, 3, 7, 7]},
            {"name": "bn", "shape": [64], "count": 2},
            {"name": "temperature", "shape": [], "trainable": False},
        ]
    )
    assert model.parameters == 64 * 3 * 49 + 128 + 1
    assert model.trainable_parameters == model.parameters - 1
    assert model.active_parameters is None


def test_names_are_optional() -> None:
    model = model_from_tensors([{"shape": [2, 2]}])
    assert model.inventory is not None
    assert model.inventory.first[0].name == "tensor_0"


def test_every_fault_of_a_list_comes_at_once() -> None:
    tensors = [
        {"name": 3, "shape": [1, 0, True]},
        "conv",
        {"shape": "3x3", "count": 0, "trainable": "yes", "dtype": "bf16"},
        {"name": "no shape"},
        {"shape": [2**40, 2**40]},
        {"shape": [1] * 17},
    ]
    assert sorted(faults_of(tensors)) == [
        ("/0/name", "not_a_string"),
        ("/0/shape/1", "out_of_range"),
        ("/0/shape/2", "out_of_range"),
        ("/1", "not_an_object"),
        ("/2/count", "out_of_range"),
        ("/2/dtype", "unknown_member"),
        ("/2/shape", "wrong_list"),
        ("/2/trainable", "not_a_boolean"),
        ("/3/shape", "required"),
        ("/4/shape", "too_large"),
        ("/5/shape", "wrong_list"),
    ]


@pytest.mark.parametrize("tensors", [[], {}, None, "tensors"])
def test_an_empty_list_is_a_fault(tensors: Any) -> None:
    assert faults_of(tensors) == [("", "not_a_list")]


def test_a_total_that_overflows_is_a_fault() -> None:
    assert faults_of([{"shape": [2**55]}] * 3) == [("", "too_large")]
