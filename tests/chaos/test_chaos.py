"""A small storm on each kind of installation; the long ones are run by hand with `python -m tests.chaos.chaos`."""

from __future__ import annotations

import pytest

from tests.chaos.chaos import bad, options_of, run

pytestmark = pytest.mark.slow


@pytest.mark.postgresql
def test_nothing_is_lost_on_postgresql() -> None:
    options = ["--plans=60", "--seconds=25", "--kill-every=6", "--broker=2", "--database=1", "--sample=5"]
    counts = run("postgresql", options_of(options))
    assert bad(counts) == 0, counts
    assert counts["accepted"] == 60
    assert min(counts["faults"].values()) >= 1, "the faults must have happened"


@pytest.mark.postgresql
def test_nothing_is_lost_on_the_embedded_instance() -> None:
    options = ["--plans=40", "--seconds=20", "--kill-every=8", "--broker=1", "--sample=5"]
    counts = run("sqlite", options_of(options))
    assert bad(counts) == 0, counts
    assert counts["accepted"] == 40
    assert counts["faults"]["worker"] >= 1
