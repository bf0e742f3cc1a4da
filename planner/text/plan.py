"""A finished plan for a terminal: the page's own words and numbers, laid out in ASCII."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from planner.text.table import WIDTH, Column, ascii_text, table
from planner.web import format as numbers
from planner.web import words
from planner.web.context import PlanPage, Reader, plan_page
from planner.web.run import run_facts
from planner.web.traffic import traffic
from planner.web.verdict import machine

Json = Mapping[str, Any]

COLUMNS = (
    Column("#", right=True, essential=True),
    Column("GPUS", essential=True),
    Column("PROVIDER"),
    Column("LAYOUT"),
    Column("MB x ACC"),
    Column("RECOMPUTE"),
    Column("GiB/GPU", right=True, essential=True),
    Column("HOURS", right=True, essential=True),
    Column("COST USD", right=True, essential=True),
)
LABEL = 12
"""Width of the word in front of a line, as in `Would work: `."""


def render_plan(answer: Json, request: Json, names: Mapping[str, str], width: int = WIDTH) -> str:
    """The table for people, or why there is no plan; `names` gives a device's name for its slug."""
    page = plan_page(request, answer, Reader(names=names, option_link=lambda rank: ""))
    verdict = [page.verdict.say, *([page.verdict.how] if page.verdict.how else [])]
    if answer.get("recommendation") is None:
        rest = _infeasible(page, answer)
    else:
        rest = [
            "",
            table(COLUMNS, [_option(row, names) for row in answer["options"]], width),
            "",
            *_reasons(page),
            *_job(answer),
        ]
    lines = [*verdict, *rest, *_rejected(answer), *_warnings(answer), _provenance(answer)]
    return "\n".join(ascii_text(line) for line in lines)


def _option(option: Json, names: Mapping[str, str]) -> list[str]:
    estimate = option["estimate"]
    held = option.get("memory") or option
    steps = words.accumulation(estimate)
    size = f"{numbers.need_number(option['device_bytes'])}/{numbers.capacity_number(held.get('capacity_bytes'))}"
    return [
        str(option["rank"]),
        machine(estimate, names),
        str((option.get("offer") or {}).get("provider") or numbers.DASH),
        layout(estimate),
        f"{estimate['batch'].get('micro_batch_size') or 1} x {numbers.DASH if steps is None else steps}",
        words.recompute_name(estimate.get("recompute")),
        size,
        numbers.hours_number(option["hours"]),
        numbers.money(option["usd"]),
    ]


def layout(estimate: Json) -> str:
    """`fsdp2 z3 dp16 tp2`: the engine, its stage and every degree above one."""
    shards, degrees = estimate.get("sharding") or {}, estimate.get("parallelism") or {}
    replicate, shard = degrees.get("dp_replicate") or 1, degrees.get("dp_shard") or 1
    parts = [str(shards.get("engine", "")), f"z{shards.get('zero_stage', 0)}", f"dp{replicate * shard}"]
    parts += [f"{name}{degrees[name]}" for name in ("tp", "pp", "cp", "ep") if (degrees.get(name) or 1) > 1]
    return " ".join(parts)


def _labelled(label: str, lines: Iterable[str]) -> list[str]:
    """Lines behind one word; each wrapped under itself."""
    found: list[str] = []
    for line in lines:
        head = f"{label}:" if not found else ""
        for part in textwrap.wrap(ascii_text(line), WIDTH - LABEL):
            found.append(f"{head:<{LABEL}}{part}")
            head = ""
    return found


def _reasons(page: PlanPage) -> list[str]:
    return [
        *_labelled("Why", [reason.text for reason in page.why]),
        *_labelled("Why not", [reason.text for reason in page.why_not]),
    ]


def _job(answer: Json) -> list[str]:
    """Of the first option: what becomes of it over the whole job, and whether a network binds it."""
    best = answer["recommendation"]
    facts = [f"{fact.name[0].lower()}{fact.name[1:]} {fact.value}" for fact in run_facts(best)]
    sent = traffic((best.get("answer") or {}).get("communication"))
    return [*_labelled("Job", ["; ".join(facts)] if facts else []), *_labelled("Network", [sent.says] if sent else [])]


def _infeasible(page: PlanPage, answer: Json) -> list[str]:
    closest = [f"{miss.name}: misses {miss.limit} by {miss.over}" for miss in page.misses[:1]]
    changes = [_change(change) for change in answer.get("what_if") or () if change["fits"]]
    return ["", *_labelled("Closest", closest), *_labelled("Would work", changes or ["no single change was found"]), ""]


def _change(change: Json) -> str:
    saved = change.get("memory_bytes")
    memory = "" if saved is None else f"{numbers.memory_difference(saved)}, "
    return f"{change['change']}: {memory}{numbers.hours(change['hours'])}, {numbers.money(change['usd'])}"


def _rejected(answer: Json) -> list[str]:
    counts = sorted(((name, count) for name, count in answer["rejections"].items() if count), key=lambda row: -row[1])
    if not counts:
        return []
    search = answer["search"]
    listed = ", ".join(f"{words.reason(name).lower()} {count:,}" for name, count in counts)
    return _labelled("Rejected", [f"{listed}; of {search['candidates']:,} in {search['seconds']:.1f} s"])


def _warnings(answer: Json) -> list[str]:
    return [line for warning in answer.get("warnings") or () for line in _labelled("Warning", [str(warning)])]


def _provenance(answer: Json) -> str:
    known = answer["provenance"]
    dates = known.get("price_dates") or []
    prices = f", prices of {min(dates)} to {max(dates)}" if dates else ""
    number = f"Plan {answer['id']}. " if "id" in answer else ""
    return f"{number}Engine {known['engine_version']}, catalog {known['catalog_revision']}{prices}."
