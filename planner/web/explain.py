"""One number taken apart: its lines with formula and values, what goes in, what moves it, how far to trust it."""

from __future__ import annotations

import re

from planner.web import format as text
from planner.web import words
from planner.web.explain_inputs import DEPENDS_ON, Known, inputs_of
from planner.web.explain_totals import TOTALS, explain_total
from planner.web.explanation import (
    Asked,
    ExplainedLine,
    Explanation,
    difference_of,
    moves_of,
    sizes,
    time_trust,
    trust_of,
)
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
_SPLIT = re.compile(r"\b(Alive|Source): ")


def subjects() -> tuple[str, ...]:
    """Everything that can be explained."""
    return (*DEPENDS_ON, *TOTALS)


def explain(subject: str, asked: Asked) -> Explanation | None:
    """The explanation of a bucket, of what lies outside the allocator, or of the step; None where it is not there."""
    if subject == "step":
        return _step(asked)
    if subject in TOTALS:
        return explain_total(subject, asked)
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
        moves=moves_of(asked, lambda answer: _size_of(read_ledger(answer["memory"]), subject), text.memory_difference),
        trust=trust_of(asked),
    )


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


def _term(line: Json) -> ExplainedLine:
    """One term of the step with its rule and source."""
    body, alive, source = read_rule(str(line.get("explanation") or ""))
    note, _, at_once = str(line["note"]).partition(" [")
    source = source or at_once.partition("Source: ")[2]
    return ExplainedLine(str(line["formula"]), note, body, "", alive, source, f"= {text.duration(line['seconds'])}")


def _step(asked: Asked) -> Explanation | None:
    spent = asked.answer.get("time") or {}
    seconds = spent.get("step_seconds")
    if seconds is None:
        return None
    lines = tuple(_term(line) for line in spent.get("lines") or () if line.get("seconds"))
    return Explanation(
        subject="step",
        title="Step",
        value=text.duration(seconds),
        scope="all GPUs together",
        introduction=INTRODUCTIONS["step"],
        lines=lines,
        inputs=inputs_of("step", Known(asked.request, asked.scenario, asked.asked_by)),
        moves=moves_of(
            asked, lambda answer: (answer.get("time") or {}).get("step_seconds"), difference_of(text.duration)
        ),
        trust=time_trust(asked),
    )
