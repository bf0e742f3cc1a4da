"""How far the measured steps behind an engine family's constants reach: what lies outside is extrapolated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accounting.scenario import Scenario
from accounting.units import Bytes

Reach = tuple[tuple[str, int, int], ...]
"""(measure, least, most) over the measured steps, by the names of MEASURES."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A size of a run that constants were fitted over."""

    words: str
    """With {value}."""
    column: Callable[[Scenario], Bytes | int]
    """Of every candidate, int64 of shape (N, 1), or one for all."""
    both: bool = False
    """Small ones are as far from what was measured as large ones."""
    leeway: float = 1.0
    """Factor by which a value may pass the ends before it is worth a word."""


MEASURES: Mapping[str, Measure] = {
    "parameters": Measure("{value:,} parameters", lambda s: s.recipe.model.parameters, both=True, leeway=1.5),
    "devices": Measure("{value:,} devices", lambda s: s.layout.count),
    "sequence": Measure("sequences of {value:,}", lambda s: s.layout.sequence_length, both=True, leeway=1.5),
    "micro_batch": Measure("micro-batches of {value}", lambda s: s.layout.micro_batch_size, leeway=2.0),
    "tp": Measure("tp {value}", lambda s: s.layout.tp),
    "cp": Measure("cp {value}", lambda s: s.layout.cp),
    "pp": Measure("pp {value}", lambda s: s.layout.pp),
    "ep": Measure("ep {value}", lambda s: s.layout.ep),
}


def value_of(measure: Measure, scenario: Scenario, row: int) -> int:
    """One candidate's value."""
    column = measure.column(scenario)
    return int(column) if isinstance(column, int) else int(column[row, 0])


def places_of(scenario: Scenario, row: int) -> dict[str, int]:
    """Where one candidate stands in every measure."""
    return {name: value_of(measure, scenario, row) for name, measure in MEASURES.items()}


def spanned(places: list[dict[str, int]]) -> Reach:
    """Ends of every measure over measured steps."""
    found = []
    for name in MEASURES:
        values = [place[name] for place in places if name in place]
        if values:
            found.append((name, min(values), max(values)))
    return tuple(found)


def beyond(reach: Reach, scenario: Scenario, row: int) -> list[str]:
    """What of one candidate no measured step came near, in words."""
    said = []
    for name, least, most in reach:
        measure = MEASURES[name]
        value = value_of(measure, scenario, row)
        if value > most * measure.leeway:
            said.append(f"{measure.words.format(value=value)} (measured up to {most:,})")
        elif measure.both and value * measure.leeway < least:
            said.append(f"{measure.words.format(value=value)} (measured from {least:,})")
    return said
