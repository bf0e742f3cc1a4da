"""Rows of the options: one per field, complete, and honest about where they matter."""

from __future__ import annotations

from dataclasses import fields

import pytest

from accounting.facts.knobs import KNOBS, Knob, KnobKind
from accounting.options import Options
from planner.requests.fields import Faults
from planner.requests.tables import knob_kind


def test_rows_and_fields_are_the_same_list() -> None:
    assert set(KNOBS) == {item.name for item in fields(Options)}


@pytest.mark.parametrize("knob", KNOBS.values(), ids=lambda knob: knob.name)
def test_a_row_says_everything_a_reader_needs(knob: Knob) -> None:
    assert knob.default
    assert knob.help
    assert knob.engines
    assert (knob.kind is KnobKind.WORD) <= bool(knob.choices)
    assert (knob.kind in {KnobKind.WHOLE, KnobKind.NUMBER}) <= (knob.high > knob.low)


@pytest.mark.parametrize("knob", KNOBS.values(), ids=lambda knob: knob.name)
@pytest.mark.parametrize("value", [None, {}, "\0", -1e300])
def test_no_knob_takes_nonsense(knob: Knob, value: object) -> None:
    faults = Faults()
    knob_kind(knob).read(value, f"/options/{knob.name}", faults)
    assert [fault.pointer for fault in faults.found] == [f"/options/{knob.name}"]
