"""The table of what stops under which engine is of the registry, and nothing recommended stops."""

from __future__ import annotations

from collections import Counter

import pytest

from accounting.facts.optimizers import OPTIMIZERS
from accounting.facts.refusals import REFUSALS, eight_bit_adamw, refusal_of, refusals_of
from accounting.vocabulary import Engine


def test_every_name_is_of_the_registry_and_stands_once_an_engine() -> None:
    named = Counter((row.engine, name) for row in REFUSALS for name in row.optimizers)
    assert {name for _, name in named} <= set(OPTIMIZERS)
    assert set(named.values()) == {1}


@pytest.mark.parametrize("engine", list(Engine))
def test_the_8_bit_adamw_that_advice_names_runs_under_its_engine(engine: Engine) -> None:
    assert refusal_of(engine, eight_bit_adamw(engine)) is None


def test_what_fsdp2_refuses_others_may_run() -> None:
    assert {row.engine for row in refusals_of("adamw-8bit")} == {Engine.FSDP2}
    assert refusals_of("adamw") == ()
