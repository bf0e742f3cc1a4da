"""What an explanation is made of, and what all of them share: sizes in three units, moves, trust, guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from accounting.facts.bands import BANDS, Band
from accounting.facts.calibration import CALIBRATION
from accounting.scenario import Scenario
from accounting.units import GB
from planner.web import format as text
from planner.web import words
from planner.web.explain_inputs import Input
from planner.web.guards import GUARDS, Guard
from planner.web.words import Json

_SAME = 1e-6
_NOTHING = 2e-3
"""Changes below this share of a number are not worth a line."""
_MOST_MOVES = 6


@dataclass(frozen=True)
class ExplainedLine:
    """One line: its rule, its formula, the values filled in, when it is alive and where the rule comes from."""

    key: str
    note: str
    formula: str
    filled: str
    alive: str
    source: str
    share: str


@dataclass(frozen=True)
class Move:
    """A change of the request, and what it does to this number."""

    change: str
    difference: str


@dataclass(frozen=True)
class Explanation:
    """Everything the panel shows about one number."""

    subject: str
    title: str
    value: str
    scope: str
    introduction: str
    lines: tuple[ExplainedLine, ...]
    inputs: tuple[Input, ...]
    moves: tuple[Move, ...]
    trust: str
    sizes: str = ""
    letter: str = ""
    tone: int = 0

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The truth rows that a change of this number must still meet."""
        return GUARDS.get(self.subject, ())


Ask = Callable[[Mapping[str, Any]], Json | None]
"""The estimate answer of a changed request; None where the change is not possible."""


@dataclass(frozen=True)
class Asked:
    """One estimate with its request, ready to be explained."""

    request: Json
    answer: Json
    scenario: Scenario
    asked_by: str
    ask: Ask
    option: Json = field(default_factory=dict)
    """The plan's option: hours, dollars, offer; empty for a bare estimate."""
    tokens: int | None = None
    """Tokens of the whole job."""


def sizes(size: int) -> str:
    """The same bytes in B, GiB and GB."""
    gigabytes = f"{text.fixed(size / GB, 2)}{text.NBSP}GB"
    return f"= {size:,}{text.NBSP}B = {text.gib_number(size, 2)}{text.NBSP}GiB = {gigabytes}"


def trust_of(asked: Asked) -> str:
    """What was measured of the kind of run that the likely range was taken from."""
    memory = asked.answer["memory"]
    device, ends = memory.get("device_bytes"), memory.get("device_bytes_band")
    used = None if not device or not ends else _band_of(ends[0] / device, ends[1] / device)
    if used is None:
        return "No measured run is close to this shape; the range is wide."
    low, high = (text.fixed(100 * abs(1 - edge), 1) for edge in (used.low, used.high))
    said = (
        f"In {used.runs:,} measured runs of this kind the card held {low}{text.NBSP}% less to {high}{text.NBSP}% more "
        "than predicted, nine times in ten."
    )
    return f"{said} Why so wide: {used.why}." if used.why else said


def _band_of(low: float, high: float) -> Band | None:
    """The row of measured runs that gave a range; the answer says the range and not the row."""
    rows = (row for row in BANDS.values() if row.runs)
    return next((row for row in rows if abs(row.low - low) + abs(row.high - high) < _SAME), None)


def time_trust(asked: Asked) -> str:
    """How far the seconds may be off, and how many measured steps of this family of GPUs say so."""
    spent = asked.answer.get("time") or {}
    seconds, ends = spent.get("step_seconds"), spent.get("band")
    if not seconds or not ends:
        return "No range is known."
    low, high = ends[0] / seconds, ends[1] / seconds
    said = f"A step likely takes {text.duration(ends[0])} to {text.duration(ends[1])}."
    rows = (row for row in CALIBRATION.devices.values() if row.rows)
    used = next((row for row in rows if abs(row.band[0] - low) + abs(row.band[1] - high) < _SAME), None)
    if used is None:
        return f"{said} No measured step of this family of GPUs; the range is wide."
    return f"{said} Eight of ten of {used.rows:,} measured steps on {used.name} GPUs lie inside."


def moves_of(asked: Asked, read: Callable[[Json], Any], say: Callable[[Any], str]) -> tuple[Move, ...]:
    """Every change that is possible and moves the number, largest saving first."""
    before = read(asked.answer)
    found: list[tuple[float, Move]] = []
    for name, changed in changes(asked.request):
        answer = asked.ask(changed)
        after = None if answer is None or answer["memory"].get("peak_allocated_bytes") is None else read(answer)
        if after is None or abs(after - before) <= _NOTHING * abs(before):
            continue
        found.append((after - before, Move(name, say(after - before))))
    return tuple(move for _, move in sorted(found, key=lambda pair: pair[0])[:_MOST_MOVES])


def difference_of(say: Callable[[Any], str]) -> Callable[[Any], str]:
    """A change written with its sign."""
    return lambda value: text.signed(say(abs(value)), value)


def changes(request: Json) -> Iterator[tuple[str, dict[str, Any]]]:
    """The request with one thing changed, and what that is called."""
    batch, layout = request.get("batch") or {}, request.get("parallelism") or {}
    length, micro = batch.get("sequence_length"), batch.get("micro_batch_size") or 1
    for mode in ("full", "selective", "none"):
        if words.recompute_name(request.get("recompute")) != mode:
            yield f"Recompute: {mode}", {**request, "recompute": mode}
    if isinstance(length, int):
        yield f"Sequence {length // 2:,}", {**request, "batch": {**batch, "sequence_length": length // 2}}
    yield f"Micro-batch {micro * 2}", {**request, "batch": {**batch, "micro_batch_size": micro * 2}}
    yield "Fused loss", {**request, "options": {**(request.get("options") or {}), "loss": "fused"}}
    yield "AdamW 8-bit", {**request, "optimizer": "adamw-8bit"}
    yield "ZeRO 3", {**request, "sharding": {**(request.get("sharding") or {}), "zero_stage": 3}}
    hardware, tp = request.get("hardware") or {}, layout.get("tp") or 1
    count = hardware.get("count") or 1
    wider = {name: value for name, value in layout.items() if name not in ("dp_shard", "dp_replicate", "etp")}
    yield f"Tensor parallel {tp * 2}", {**request, "parallelism": {**wider, "tp": tp * 2}}
    yield f"{count * 2:,} GPUs", {**request, "hardware": {**hardware, "count": count * 2}, "parallelism": wider}
