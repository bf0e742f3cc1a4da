"""The parts of a plan page that summarise: figures, reasons, changes, counts, misses, provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from planner.web import format as text
from planner.web import words
from planner.web.calculator_link import calculator_query
from planner.web.changed import changed_estimate, plannable
from planner.web.ledger import Fact
from planner.web.options import memory_of
from planner.web.verdict import machine
from planner.web.words import Json


@dataclass(frozen=True)
class Stat:
    """One of the four figures at the top: label, number, unit, and a muted line."""

    label: str
    number: str
    unit: str
    note: str
    subject: str = ""
    """What explains it; empty where there is nothing to explain."""


@dataclass(frozen=True)
class Reason:
    """A line of why or why not, with its sign."""

    sign: str
    text: str


@dataclass(frozen=True)
class Change:
    """One change and what it does to memory, time and cost, with signs."""

    name: str
    memory: str
    hours: str
    usd: str
    tone: str
    tag: str
    becomes: str = ""
    place: int = 0
    """Which of the answer's changes it is."""
    plannable: bool = False
    """Whether planning again with it is one press away."""
    calculator: str | None = None
    """Query of the calculator with this change made; None where no request says it."""


@dataclass(frozen=True)
class TurnedDown:
    """A reason with its count; `width` is per cent of the largest."""

    name: str
    count: str
    width: float


@dataclass(frozen=True)
class Miss:
    """A candidate that came close."""

    name: str
    limit: str
    over: str


def device_count(estimate: Json) -> int:
    """How many devices a configuration runs on."""
    return int((estimate.get("hardware") or {}).get("count") or 1)


def stats_of(option: Json, explained: Json, request: Json) -> tuple[Stat, ...]:
    """Memory, time, cost, throughput: each with its scope in the label or the note."""
    held, spent = memory_of(option), explained.get("time") or option.get("time") or {}
    tokens = (request.get("workload") or {}).get("tokens")
    free, count = option.get("headroom_bytes"), device_count(option.get("estimate") or {})
    peak = (explained.get("memory") or held).get("peak_phase")
    hours, step = option.get("hours"), option.get("step_seconds")
    steps = "" if not hours or not step else f"{round(hours * 3600 / step):,} steps of {text.duration(step)}"
    per_device = spent.get("tokens_per_second_per_device")
    long = hours is not None and (hours >= 100 or hours < 2)  # noqa: PLR2004 - where the formatter changes the unit
    return (
        Stat(
            "Memory per GPU",
            text.need_number(option.get("device_bytes")),
            f"GiB of {text.capacity_number(held.get('capacity_bytes'))}",
            ("" if free is None else f"{text.memory(free)} free, ") + f"peak in {words.phase(peak)}",
            "device",
        ),
        Stat(
            f"Time for {text.short_count(tokens)} tokens" if tokens else "Time",
            text.hours(hours) if long or hours is None else text.hours_number(hours),
            "" if long or hours is None else "hours",
            steps or "no number of tokens was given",
            "hours" if steps else "",
        ),
        _cost_stat(option, count),
        Stat(
            "Throughput per GPU",
            text.NOT_KNOWN if per_device is None else text.significant(per_device),
            "" if per_device is None else "tokens/s",
            f"MFU {text.fraction(spent.get('mfu'))} of the dense peak",
            "throughput" if per_device else "",
        ),
    )


def _cost_stat(option: Json, count: int) -> Stat:
    """Dollars of the whole job, or of an hour where the job has no length."""
    usd, rate = option.get("usd"), option.get("usd_per_hour")
    whom = "the one GPU" if count == 1 else f"all {count:,} GPUs"
    if usd is None and rate is not None:
        return Stat(
            "Cost per hour", text.money_rate(rate), "", f"{whom}; the whole job needs a number of tokens", "rate"
        )
    note = f"{text.money_rate(rate)} per hour, {whom}"
    return Stat("Cost, whole job", text.money(usd), "", note, "" if usd is None else "cost")


def reasons_of(why: object, option: Json) -> Sequence[object]:
    """The plan's reasons for its first choice; an option's own explanation elsewhere."""
    if option.get("rank") == 1 and isinstance(why, Sequence) and not isinstance(why, str):
        return why
    explanation = option.get("explanation") or ()
    return [explanation] if isinstance(explanation, str) else list(explanation)


_SIGNS = {"unknown": "?", "no": "\u2715"}


def reasons_against(lines: Sequence[object]) -> list[Reason]:
    """Why not: a text, or an object with its kind (no, unknown) and text."""
    found = []
    for line in lines:
        if isinstance(line, Mapping):
            found.append(Reason(_SIGNS.get(str(line.get("kind")), "\u2715"), str(line.get("text", ""))))
        else:
            found.append(Reason(_SIGNS["no"], str(line)))
    return found


_FIT_TAGS = {True: ("ok", "\u2713 fits"), False: ("bad", "\u2715 does not fit"), None: ("warn", "? not known")}


def change_of(row: Json, base: Json) -> Change:
    """One change against the first option: differences, with signs."""
    tone, tag = _FIT_TAGS[row.get("fits")]
    return Change(
        name=str(row.get("change", "")),
        memory=text.memory_difference(row.get("memory_bytes")),
        hours=text.hours_difference(row.get("hours")),
        usd=text.money_difference(row.get("usd")),
        tone=tone,
        tag=tag,
        calculator=calculator_query(changed_estimate(row, base) or {}),
    )


def way_out_of(row: Json, names: Mapping[str, str], place: int = 0) -> Change:
    """One change that makes an infeasible plan work: what it becomes, and its own hours and dollars."""
    estimate = row.get("estimate") or {}
    tone, tag = _FIT_TAGS[row.get("fits")]
    return Change(
        name=str(row.get("change", "")),
        memory=text.memory_difference(row.get("memory_bytes")),
        hours=text.hours(row.get("hours")),
        usd=text.money(row.get("usd")),
        tone=tone,
        tag=tag,
        becomes=", ".join((machine(estimate, names), words.sharding(estimate))) if estimate else "",
        place=place,
        plannable=plannable(row),
        calculator=calculator_query(estimate),
    )


def turned_down(answer: Json) -> tuple[tuple[TurnedDown, ...], str]:
    """Reasons with counts, largest first, and the line that says of how many."""
    counts = sorted((answer.get("rejections") or {}).items(), key=lambda row: -row[1])
    counts = [row for row in counts if row[1]]
    most = counts[0][1] if counts else 1
    total, whole = sum(size for _, size in counts), (answer.get("search") or {}).get("candidates")
    rows = tuple(TurnedDown(words.reason(slug), f"{size:,}", 100 * size / most) for slug, size in counts)
    of = f" of {whole:,}" if whole else ""
    return rows, f"{total:,}{of}, first reason that applied."


def miss_of(row: Json, names: Mapping[str, str]) -> Miss:
    """One near miss, with what it misses and by how much."""
    estimate = row.get("estimate") or {}
    reason = str(row.get("reason", "memory"))
    over = {
        "memory": text.memory(row.get("misses_by_bytes")),
        "deadline": text.hours(row.get("misses_by_hours")),
        "budget": text.money(row.get("misses_by_usd")),
        "throughput": f"{row.get('misses_by_tokens_per_second') or 0:,.0f} tokens/s",
    }.get(reason, text.DASH)
    recompute = words.recompute_name(estimate.get("recompute"))
    parts = [machine(estimate, names), words.sharding(estimate), words.degrees(estimate)]
    parts += [f"recompute {recompute}"] if recompute != "none" else []
    return Miss(", ".join(part for part in parts if part), words.reason(reason).lower(), over)


def provenance_of(answer: Json) -> tuple[Fact, ...]:
    """What the same answer can be made from again."""
    known = answer.get("provenance") or {}
    dates = known.get("price_dates")
    when = (
        " to ".join(text.day(date.fromisoformat(at)) for at in dict.fromkeys((min(dates), max(dates))))
        if dates
        else None
    )
    facts = (
        ("Engine", known.get("engine_version")),
        ("Catalog revision", known.get("catalog_revision")),
        ("Prices of", when),
        ("Request", str(known.get("request_digest") or "")[:8] or None),
    )
    return tuple(Fact(name, str(value)) for name, value in facts if value is not None)
