"""Small multiples: every pipeline stage at its own peak, and host memory and NVMe as bars of the same form."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.units import GIB
from planner.web import format as text
from planner.web import words
from planner.web.words import Json


@dataclass(frozen=True)
class Piece:
    """One bucket of a bar: left edge and width in per cent."""

    x: float
    width: float
    tone: int
    title: str


@dataclass(frozen=True)
class StageBar:
    """One bar with its words."""

    name: str
    note: str
    size: str
    exact: str
    pieces: tuple[Piece, ...]
    capacity: float | None = None
    """Where its capacity stands, in per cent; None where it is not known or off the scale."""


def stage_bars(held: Json) -> tuple[StageBar, ...]:
    """Every stage of a pipeline on one scale, that of the card; empty for a single stage."""
    stages = held.get("stages") or ()
    if len(stages) < 2:  # noqa: PLR2004 - one stage is the bar above
        return ()
    card = held.get("capacity_bytes") or 0
    whole = 1.02 * max(card, *(stage["peak_allocated_bytes"] for stage in stages))
    return tuple(
        StageBar(
            name=f"Stage {stage['pipeline_stage']}",
            note=f"{stage['layers']:,} layers, peak in {words.phase(stage.get('peak_phase'))}",
            size=text.memory(stage["peak_allocated_bytes"]),
            exact=text.exact_bytes(stage["peak_allocated_bytes"]),
            pieces=_pieces(stage.get("by_bucket") or {}, whole),
            capacity=100 * card / whole if card else None,
        )
        for stage in stages
    )


def _pieces(buckets: Json, whole: float) -> tuple[Piece, ...]:
    found, before = [], 0
    for tone, (slug, _, name) in enumerate(words.BUCKETS, start=1):
        size = buckets.get(slug) or 0
        if size:
            found.append(Piece(100 * before / whole, 100 * size / whole, tone, f"{name}: {text.memory(size, 2)}"))
            before += size
    return tuple(found)


def outside_bars(held: Json, host_capacity: int | None, nvme_capacity: int | None) -> tuple[StageBar, ...]:
    """Host memory while running and NVMe of one node, each on its own scale; only where a GiB is used."""
    rows = (
        ("Host memory per node", held.get("host_bytes_per_node"), host_capacity),
        ("NVMe per node", held.get("nvme_bytes_per_node"), nvme_capacity),
    )
    found = []
    for name, size, capacity in rows:
        if not size or size < GIB:
            continue
        whole = 1.02 * max(size, capacity or 0)
        note = "capacity not known" if not capacity else f"of {text.memory(capacity)}"
        piece = Piece(0.0, 100 * size / whole, 9, f"{name}: {text.memory(size, 2)}")
        at = 100 * capacity / whole if capacity else None
        found.append(StageBar(name, note, text.memory(size), text.exact_bytes(size), (piece,), at))
    return tuple(found)
