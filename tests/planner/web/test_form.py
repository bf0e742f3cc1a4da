"""Typed text becomes the contract's JSON, and faults come back to their fields."""

from __future__ import annotations

import json

import pytest
from django.http import QueryDict

from planner.errors import Fault
from planner.web.calculator_link import calculator_query
from planner.web.form import bind, payload_from, read_number, start_from
from planner.web.form_more import leftover
from planner.web.form_rows import ESTIMATE_ROWS, PLAN_ROWS
from tests.planner.web import answers


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("15e9", 15_000_000_000),
        ("15B", 15_000_000_000),
        ("15_000_000_000", 15_000_000_000),
        ("15,000,000,000", 15_000_000_000),
        (" 1.5 T ", 1_500_000_000_000),
        ("0.5", 0.5),
        ("8192", 8192),
        ("-3", -3),
    ],
)
def test_numbers_are_read_as_people_write_them(typed: str, number: float) -> None:
    assert read_number(typed) == number
    assert type(read_number(typed)) is type(number)


@pytest.mark.parametrize("typed", ["many", "1e999999999", "nan", "Infinity", "", "B", "1..2", "<b>", "१२x"])
def test_what_is_no_number_stays_text_for_the_one_validation(typed: str) -> None:
    assert read_number(typed) == typed.strip()


def posted(**values: str | list[str]) -> QueryDict:
    data = QueryDict(mutable=True)
    for name, value in values.items():
        data.setlist(name, value if isinstance(value, list) else [value])
    return data


def test_form_builds_the_contracts_request() -> None:
    payload, unread = payload_from(
        posted(
            model_kind="catalog",
            model="llama-3-8b",
            tokens="15e9",
            sequence_length="8192",
            memory_headroom="5",
            accelerators=["h100-sxm5-80gb"],
            zero_stages=["2", "3"],
            tp="1 2, 4",
            pp="auto",
            objective="cost",
        ),
        PLAN_ROWS,
    )
    assert unread == []
    assert payload["model"] == "llama-3-8b"
    assert payload["workload"] == {"tokens": 15_000_000_000, "sequence_length": 8192}
    assert payload["constraints"] == {"memory_headroom": 0.05}
    assert payload["hardware"]["accelerators"] == ["h100-sxm5-80gb"]
    assert payload["search"] == {"zero_stages": [2, 3], "recompute": [], "tp": [1, 2, 4], "pp": "auto"}


def test_empty_tokens_ask_for_dollars_per_hour() -> None:
    payload, _ = payload_from(posted(model="m", tokens=""), PLAN_ROWS)
    assert payload["workload"]["tokens"] is None


def test_config_and_count_are_the_other_ways_to_give_a_model() -> None:
    config, _ = payload_from(posted(model_kind="config", config='{"hidden_size": 8}'), PLAN_ROWS)
    counted, _ = payload_from(posted(model_kind="count", parameters="7B"), PLAN_ROWS)
    assert config["model"] == {"config": {"hidden_size": 8}}
    assert counted["model"] == {"parameters": 7_000_000_000}


@pytest.mark.parametrize("typed", ["{", "", "[" * 100_000])
def test_unreadable_config_is_a_fault_at_its_pointer(typed: str) -> None:
    _, unread = payload_from(posted(model_kind="config", config=typed), PLAN_ROWS)
    assert [fault.pointer for fault in unread] == ["/model/config"]


def test_faults_stand_at_their_fields_and_typed_values_stay() -> None:
    data = posted(model_kind="catalog", model="lama", tokens="many", accelerators=["x"])
    faults = [
        Fault("/model", "unknown_name", "unknown model"),
        Fault("/workload/tokens", "wrong_type", "not a whole number"),
        Fault("/hardware/accelerators/0", "unknown_name", "unknown GPU"),
        Fault("/goodput/restart_seconds", "out_of_range", "elsewhere"),
    ]
    form = bind(data, PLAN_ROWS, {}, faults)
    assert form.fields["model"].messages == ("unknown model",)
    assert form.fields["tokens"].messages == ("not a whole number",)
    assert form.fields["tokens"].value == "many"
    assert form.fields["accelerators"].messages == ("unknown GPU",)
    assert [row[0] for row in form.summary] == ["model", "tokens", "accelerators", "more"]
    assert form.fields["more"].messages == ("goodput/restart_seconds: elsewhere",)


def test_fault_inside_a_pasted_config_names_its_place() -> None:
    form = bind(posted(model_kind="config"), PLAN_ROWS, {}, [Fault("/model/config/hidden_size", "required", "missing")])
    assert form.fields["config"].messages == ("hidden_size: missing",)


def test_number_is_echoed_as_it_was_understood() -> None:
    form = bind(posted(tokens="15e9", sequence_length="8192"), PLAN_ROWS, {})
    assert form.fields["tokens"].echo == "15,000,000,000"
    assert form.fields["sequence_length"].echo == ""


def test_earlier_request_fills_the_form_and_gives_itself_again() -> None:
    start = start_from(answers.PLAN_REQUEST, PLAN_ROWS)
    data = posted(**{name: list(value) if isinstance(value, tuple) else value for name, value in start.items()})
    payload, unread = payload_from(data, PLAN_ROWS)
    assert unread == []
    again = json.loads(json.dumps(payload))
    for group in ("workload", "constraints"):
        assert again[group] == answers.PLAN_REQUEST[group]
    assert again["hardware"]["accelerators"] == answers.PLAN_REQUEST["hardware"]["accelerators"]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"options": {"loss": "fused", "gradient_as_bucket_view": True}},
        {"adapter": {"method": "lora", "rank": 16}},
        {"optimizer": {"name": "adamw", "options": {"foreach": False}}},
        {"recompute": {"mode": "full", "every": 2}},
        {"model": {"architecture": {"layers": 2, "hidden_size": 8}}},
        {"extra_models": [{"model": "llama-3-8b", "role": "reference"}]},
    ],
)
def test_calculator_link_holds_the_whole_request(more: dict[str, object]) -> None:
    request = answers.estimate_request() | more
    query = calculator_query(request)
    assert query is not None
    again, unread = payload_from(QueryDict(query), ESTIMATE_ROWS)
    assert unread == []
    assert leftover(request, again) == {}
    assert leftover(again, request) == {}


def test_calculator_link_too_long_for_an_address_is_not_offered() -> None:
    assert calculator_query(answers.estimate_request() | {"model": {"config": {"x": "y" * 9000}}}) is None


def test_earlier_plan_keeps_what_the_form_has_no_field_for() -> None:
    request = answers.PLAN_REQUEST | {"goodput": {"restart_seconds": 60}, "hardware": {"providers": ["lambda"]}}
    start = start_from(request, PLAN_ROWS)
    assert json.loads(str(start["more"])) == {"goodput": {"restart_seconds": 60}, "hardware": {"providers": ["lambda"]}}
    data = posted(**{name: list(value) if isinstance(value, tuple) else value for name, value in start.items()})
    again, unread = payload_from(data, PLAN_ROWS)
    assert unread == []
    assert again["goodput"] == {"restart_seconds": 60}
    assert again["hardware"]["providers"] == ["lambda"]


@pytest.mark.parametrize("typed", ["{", "[1]", "3", '"text"'])
def test_more_that_is_no_object_is_a_fault_at_its_field(typed: str) -> None:
    _, unread = payload_from(posted(model="m", more=typed), PLAN_ROWS)
    assert [fault.pointer for fault in unread] == ["/more"]
    assert bind(posted(more=typed), PLAN_ROWS, {}, unread).fields["more"].messages
