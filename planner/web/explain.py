"""One number taken apart: its lines with formula and values, what goes in, what moves it, how far to trust it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from accounting.facts.bands import BANDS, Band
from accounting.scenario import Scenario
from accounting.units import GB
from planner.web import format as text
from planner.web import words
from planner.web.explain_inputs import DEPENDS_ON, Input, Known, inputs_of
from planner.web.ledger import Ledger, read_ledger
from planner.web.words import Json

OUTSIDE = {
    "slack": ("J", "Allocator slack", ("allocator_slack",)),
    "context": ("K", "Context and NCCL", ("context", "communicators")),
}
INTRODUCTIONS = {
    "parameters": "Weights a GPU keeps between steps.",
    "gradients": "What backward leaves for the optimizer.",
    "master_weights": "The full-precision copy that the optimizer steps.",
    "optimizer_states": "What the optimizer remembers of every weight.",
    "activations": "What forward keeps for backward.",
    "logits_and_loss": "The last layer over the whole vocabulary, and its gradient.",
    "communication_buffers": "Gathered weights and gradients on their way to other GPUs.",
    "temporaries": "Short-lived tensors of one operation.",
    "framework": "Workspaces of the kernel libraries.",
    "slack": "Reserved by the caching allocator and not in use: rounding and fragments.",
    "context": "The driver's own memory and the buffers of the collective library, outside the allocator.",
    "step": "One optimizer step: all micro-batches, the exposed communication, the update.",
}
_SAME = 1e-6
_NOTHING = 2e-3
"""Changes below this share of a number are not worth a line."""
_SPLIT = re.compile(r"\b(Alive|Source): ")


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
    letter: str
    tone: int
    title: str
    value: str
    scope: str
    introduction: str
    sizes: str
    lines: tuple[ExplainedLine, ...]
    inputs: tuple[Input, ...]
    moves: tuple[Move, ...]
    trust: str


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


def subjects() -> tuple[str, ...]:
    """Everything that can be explained."""
    return tuple(DEPENDS_ON)


def explain(subject: str, asked: Asked) -> Explanation | None:
    """The explanation of a bucket, of what lies outside the allocator, or of the step; None where it is not there."""
    if subject == "step":
        return _step(asked)
    memory = asked.answer["memory"]
    ledger = read_ledger(memory)
    row = next((row for row in (*ledger.rows, *ledger.outside) if row.slug == subject), None)
    if row is None:
        return None
    lines = _outside_lines(memory, subject) if subject in OUTSIDE else _bucket_lines(memory, subject)
    ranks = int(asked.scenario.layout.count[0, 0])
    return Explanation(
        subject=subject,
        letter=row.letter,
        tone=row.tone,
        title=row.name,
        value=text.memory(row.size, 2),
        scope="on the GPU" if ranks == 1 else "per GPU",
        introduction=f"{INTRODUCTIONS[subject]} Counted at the peak, in {words.phase(memory.get('peak_phase'))}.",
        sizes=sizes(row.size),
        lines=lines,
        inputs=inputs_of(subject, Known(asked.request, asked.scenario, asked.asked_by)),
        moves=_moves(asked, lambda answer: _size_of(read_ledger(answer["memory"]), subject), text.memory_difference),
        trust=_trust(asked),
    )


def sizes(size: int) -> str:
    """The same bytes in B, GiB and GB."""
    gigabytes = f"{text.fixed(size / GB, 2)}{text.NBSP}GB"
    return f"= {size:,}{text.NBSP}B = {text.gib_number(size, 2)}{text.NBSP}GiB = {gigabytes}"


def _size_of(ledger: Ledger, subject: str) -> int:
    return next((row.size for row in (*ledger.rows, *ledger.outside) if row.slug == subject), 0)


def _bucket_lines(memory: Json, subject: str) -> tuple[ExplainedLine, ...]:
    phase = str(memory.get("peak_phase"))
    held = [line for line in memory.get("lines") or () if line.get("bucket") == subject and line.get("device", True)]
    return tuple(_line(line, _at(line, phase)) for line in held if _at(line, phase))


def _at(line: Json, phase: str) -> int:
    return int((line.get("bytes_by_phase") or {}).get(phase, 0))


def _line(line: Json, size: int) -> ExplainedLine:
    body, alive, source = read_rule(str(line.get("explanation") or ""))
    filled = str(line.get("how") or "")
    if not filled:
        divisor = line.get("divisor") or 1
        filled = f"divided by {divisor:,}" if divisor > 1 else "whole on this GPU"
    return ExplainedLine(
        str(line.get("formula", "")), str(line.get("note") or ""), body, filled, alive, source, sizes(size)
    )


def read_rule(explanation: str) -> tuple[str, str, str]:
    """(formula, when it is alive, source) of a rule's text: first line, then paragraphs."""
    paragraphs = explanation.split("\n", 1)[1] if "\n" in explanation else ""
    lines = [line.strip() for line in paragraphs.strip().splitlines()]
    whole = "\n".join(lines)
    cut = _SPLIT.split(whole)
    named = {name: value.replace("\n", " ").strip() for name, value in zip(cut[1::2], cut[2::2], strict=True)}
    return cut[0].strip(), named.get("Alive", "").rstrip(".;"), named.get("Source", "")


def _outside_lines(memory: Json, subject: str) -> tuple[ExplainedLine, ...]:
    names = OUTSIDE[subject][2]
    return tuple(
        _plain(f"device.{row['name']}", str(row["note"]), sizes(row["bytes"]))
        for row in memory.get("overhead") or ()
        if row["name"] in names and row["bytes"]
    )


def _plain(key: str, note: str, share: str) -> ExplainedLine:
    """A line whose rule has no formula of its own in the answer."""
    return ExplainedLine(key, note, "", "", "", "", share)


def _step(asked: Asked) -> Explanation | None:
    spent = asked.answer.get("time") or {}
    seconds = spent.get("step_seconds")
    if seconds is None:
        return None
    lines = tuple(
        _plain(str(line["formula"]), str(line["note"]).split(" [")[0], f"= {text.duration(line['seconds'])}")
        for line in spent.get("lines") or ()
        if line.get("seconds")
    )
    low, high = spent.get("band") or (seconds, seconds)
    return Explanation(
        subject="step",
        letter="",
        tone=0,
        title="Step",
        value=text.duration(seconds),
        scope="all GPUs together",
        introduction=INTRODUCTIONS["step"],
        sizes="",
        lines=lines,
        inputs=inputs_of("step", Known(asked.request, asked.scenario, asked.asked_by)),
        moves=_moves(asked, lambda answer: (answer.get("time") or {}).get("step_seconds"), _seconds_difference),
        trust=f"Likely between {text.duration(low)} and {text.duration(high)}. {_trust(asked)}",
    )


def _seconds_difference(value: float) -> str:
    return text.signed(text.duration(abs(value)), value)


def _trust(asked: Asked) -> str:
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


def _moves(asked: Asked, read: Callable[[Json], Any], say: Callable[[Any], str]) -> tuple[Move, ...]:
    """Every change that is possible and moves the number, largest saving first."""
    before = read(asked.answer)
    found: list[tuple[float, Move]] = []
    for name, changed in changes(asked.request):
        answer = asked.ask(changed)
        after = None if answer is None or answer["memory"].get("peak_allocated_bytes") is None else read(answer)
        if after is None or abs(after - before) <= _NOTHING * abs(before):
            continue
        found.append((after - before, Move(name, say(after - before))))
    return tuple(move for _, move in sorted(found, key=lambda pair: pair[0])[:6])


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
