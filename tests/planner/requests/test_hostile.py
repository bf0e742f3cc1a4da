"""Whatever JSON says, the only error is InvalidRequest, and its faults can be written."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InvalidRequest
from planner.requests import estimate_request, read_estimate, read_plan
from planner.requests.tables import ESTIMATE as TABLE
from tests.planner.requests.samples import CONTEXT, ESTIMATE, PLAN

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**18, max_value=10**40)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["ddp", "megatron", "full", "auto", "nf4", "\ud83d", "a\0", "lora", "interleaved"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
SMALL = st.integers(min_value=1, max_value=64)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = document.items() if isinstance(document, dict) else ()
    return [path] * bool(path) + [place for name, value in inner for place in places(value, (*path, name))]


def with_value(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(document)
    place: Any = result
    for name in path[:-1]:
        if not isinstance(place.get(name), dict):
            place[name] = {}
        place = place[name]
    place[path[-1]] = value
    return result


def survives(read: Any, payload: object) -> None:
    try:
        read(payload, CONTEXT)
    except InvalidRequest as error:
        assert error.faults
        for fault in error.faults:
            json.dumps([fault.pointer, fault.code, fault.detail], ensure_ascii=False).encode()
            assert fault.pointer == "" or fault.pointer.startswith("/")


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_any_json_is_refused_calmly(payload: Any) -> None:
    survives(read_estimate, payload)
    survives(read_plan, payload)


MEMBERS = [(name,) for name in TABLE.members] + [
    (name, member)
    for name, group in TABLE.members.items()
    if hasattr(group.kind, "members")
    for member in group.kind.members
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MEMBERS), JSON | SMALL), min_size=1, max_size=5))
def test_any_value_in_any_member_is_answered_or_refused_calmly(changes: list[tuple[tuple[str, ...], Any]]) -> None:
    payload = ESTIMATE
    for path, value in changes:
        payload = with_value(payload, path, value)
    survives(read_estimate, payload)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(places(ESTIMATE)), JSON)
def test_any_value_at_any_place_of_a_plan(path: tuple[str, ...], value: Any) -> None:
    survives(read_plan, with_value(PLAN, path, value))


DEGREE = st.sampled_from([1, 2, 4, 8])


@settings(max_examples=200, deadline=None)
@given(
    st.fixed_dictionaries(dict.fromkeys(("dp_replicate", "dp_shard", "tp", "pp"), DEGREE)),
    st.sampled_from(["fsdp2", "deepspeed", "megatron", "ideal"]),
    st.sampled_from(["adamw", "adafactor", "lion-8bit", {"name": "sgd", "momentum": 0.9}]),
    st.sampled_from(["none", "selective", {"mode": "full", "every": 2}]),
)
def test_what_is_accepted_is_echoed_as_the_same_request(
    degrees: dict[str, int], engine: str, optimizer: Any, recompute: Any
) -> None:
    count = degrees["dp_replicate"] * degrees["dp_shard"] * degrees["tp"] * degrees["pp"]
    payload = {
        "model": "llama-3-8b",
        "hardware": {"accelerator": "h100-sxm5-80gb", "count": count},
        "parallelism": degrees,
        "sharding": {"engine": engine},
        "optimizer": optimizer,
        "recompute": recompute,
        "batch": {"sequence_length": 4096},
    }
    try:
        scenario = read_estimate(payload, CONTEXT)
    except InvalidRequest:
        return
    written = estimate_request(scenario, 0, "llama-3-8b", CONTEXT.catalog)
    assert estimate_request(read_estimate(written, CONTEXT), 0, "llama-3-8b", CONTEXT.catalog) == written
