"""One explained estimate as a page shows it: bar, ledger, phases, step, assumptions, and every line."""

from __future__ import annotations

from dataclasses import dataclass

from planner.web import format as text
from planner.web import words
from planner.web.charts.memory_bar import MemoryBar, memory_bar
from planner.web.charts.stages import StageBar, outside_bars, stage_bars
from planner.web.charts.step_memory import StepMemory, step_memory
from planner.web.charts.step_time import StepTime, step_time
from planner.web.ledger import Fact, Ledger, outside_the_card, read_ledger
from planner.web.traffic import Traffic, traffic
from planner.web.words import Json

NodeSizes = tuple[int | None, int | None]


@dataclass(frozen=True)
class LineRow:
    """One line of the ledger as the engine counted it."""

    bucket: str
    formula: str
    dtype: str
    divisor: str
    sizes: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class EstimateView:
    """One explained estimate: bar, ledger, phases, step, assumptions."""

    ledger: Ledger
    bar: MemoryBar
    outside: tuple[Fact, ...]
    through_step: StepMemory | None
    step: StepTime | None
    traffic: Traffic | None
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    where: str
    lines: tuple[LineRow, ...]
    stages: tuple[StageBar, ...] = ()
    beside: tuple[StageBar, ...] = ()
    """Host memory and NVMe, where they are used."""


def estimate_view(
    name: str, explained: Json, kept_free: float, ranks: int, node: NodeSizes = (None, None)
) -> EstimateView | None:
    """The figures of one estimate answer; None where it has no memory (a bare count has states only).

    `node` is the host memory and the NVMe of one node, in bytes, where the catalog knows them.
    """
    held = explained.get("memory") or {}
    if held.get("peak_allocated_bytes") is None:
        return None
    ledger = read_ledger(held)
    band = held.get("device_bytes_band")
    phase = words.phase(held.get("peak_phase"))
    rank = "The only rank" if ranks == 1 else f"One of {ranks:,} ranks"
    worst = (held.get("worst_rank") or {}).get("why")
    return EstimateView(
        ledger=ledger,
        bar=memory_bar(name, ledger, held.get("capacity_bytes"), None if not band else (band[0], band[1]), kept_free),
        outside=outside_the_card(held),
        through_step=step_memory(held),
        step=step_time(explained.get("time")),
        traffic=traffic(explained.get("communication")),
        assumptions=tuple(map(str, explained.get("assumptions") or ())),
        warnings=tuple(map(str, explained.get("warnings") or ())),
        where=f"{rank}, in {phase}."
        + (f" The fullest: {worst}." if worst and len(held.get("stages") or ()) > 1 else ""),
        lines=tuple(_line(line) for line in held.get("lines") or ()),
        stages=stage_bars(held),
        beside=outside_bars(held, *node),
    )


def _line(line: Json) -> LineRow:
    by_phase = line.get("bytes_by_phase") or {}
    bucket = next((title for slug, _, title in words.BUCKETS if slug == line.get("bucket")), str(line.get("bucket")))
    return LineRow(
        bucket=bucket if line.get("device", True) else f"{bucket}, on the host",
        formula=str(line.get("formula", "")),
        dtype=str(line.get("dtype") or text.DASH),
        divisor=text.count(line.get("divisor") or 1),
        sizes=tuple(text.gib_number(by_phase.get(phase, 0), 2) for phase in ("forward", "backward", "optimizer_step")),
        note=str(line.get("note") or ""),
    )
