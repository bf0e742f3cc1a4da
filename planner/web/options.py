"""The options of a plan as rows of one table, and the order a reader asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.web import format as text
from planner.web import words
from planner.web.verdict import machine
from planner.web.words import Json


@dataclass(frozen=True)
class OptionRow:
    """One option; every member is ready to print."""

    rank: int
    href: str
    machine: str
    place: str
    sharding: str
    degrees: str
    batch: str
    recompute: str
    offload: str
    memory: str
    free: str
    hours: str
    usd: str
    rate: str
    step: str
    mfu: str


@dataclass(frozen=True)
class Column:
    """A column head: its key in `?sort=`, its words, and how it is sorted now."""

    key: str
    label: str
    unit: str
    right: bool
    state: str = ""

    @property
    def next_sort(self) -> str:
        """What a press on the head asks for: the other direction where it already leads."""
        return f"-{self.key}" if self.state == "ascending" else self.key


COLUMNS = (
    Column("rank", "#", "", right=True),
    Column("gpus", "GPUs", "", right=False),
    Column("layout", "Layout", "", right=False),
    Column("batch", "Micro-batch", "\u00d7 accum.", right=True),
    Column("recompute", "Recompute", "", right=False),
    Column("memory", "GiB per GPU", "", right=True),
    Column("hours", "Hours", "", right=True),
    Column("usd", "Cost", "whole job", right=True),
    Column("rate", "$/h", "all GPUs", right=True),
    Column("step", "Step", "s", right=True),
    Column("mfu", "MFU", "", right=True),
)
_KEYS = tuple(column.key for column in COLUMNS)


def memory_of(option: Json) -> Json:
    """An option's memory summary; the contract's own members where there is none."""
    summary: Json = option.get("memory") or option
    return summary


def time_of(option: Json) -> Json:
    """An option's time summary."""
    summary: Json = option.get("time") or {}
    return summary


def option_row(option: Json, names: Mapping[str, str], href: str) -> OptionRow:
    """Write one option out."""
    estimate = option.get("estimate") or {}
    held, batch = memory_of(option), estimate.get("batch") or {}
    steps = words.accumulation(estimate)
    headroom = option.get("headroom_bytes")
    return OptionRow(
        rank=option["rank"],
        href=href,
        machine=machine(estimate, names),
        place=place(option),
        sharding=words.sharding(estimate),
        degrees=words.degrees(estimate),
        batch=f"{batch.get('micro_batch_size') or 1} \u00d7 {text.DASH if steps is None else steps}",
        recompute=words.recompute_name(estimate.get("recompute")),
        offload=words.offload_name(estimate.get("offload")),
        memory=f"{text.need_number(option.get('device_bytes'))} of {text.capacity_number(held.get('capacity_bytes'))}",
        free="" if headroom is None else f"{text.gib_number(headroom, 1)} free",
        hours=text.DASH if option.get("hours") is None else text.hours_number(option["hours"]),
        usd=_dollars(option),
        rate=text.rate_number(option.get("usd_per_hour")),
        step=text.seconds_number(option.get("step_seconds")),
        mfu=text.fraction(time_of(option).get("mfu")),
    )


def _dollars(option: Json) -> str:
    """The whole job's dollars; a job without a length has a rate and no total."""
    usd = option.get("usd")
    return text.DASH if usd is None and option.get("usd_per_hour") is not None else text.money(usd)


def place(option: Json) -> str:
    """'2 nodes · Lambda · on-demand · us-east · 2026-11-05', of what is known."""
    offer = option.get("offer") or {}
    nodes = option.get("nodes")
    parts = [f"{nodes:,} node{'' if nodes == 1 else 's'}"] if nodes else []
    parts += [str(offer[key]) for key in ("provider", "pricing", "region", "price_date") if offer.get(key)]
    return " \u00b7 ".join(parts)


def sort_options(options: Sequence[Json], wanted: str | None) -> tuple[list[Json], tuple[Column, ...]]:
    """Options in the order of `?sort=` (a minus turns it round), unknowns last; an unknown word keeps the ranking."""
    key = (wanted or "rank").removeprefix("-")
    if key not in _KEYS:
        key, wanted = "rank", "rank"
    backwards = bool(wanted) and str(wanted).startswith("-")
    known = [option for option in options if _value(option, key) is not None]
    unknown = [option for option in options if _value(option, key) is None]
    ordered = sorted(known, key=lambda option: _order(_value(option, key)), reverse=backwards)
    state = "descending" if backwards else "ascending"
    heads = tuple(
        Column(column.key, column.label, column.unit, column.right, state if column.key == key else "")
        for column in COLUMNS
    )
    return ordered + unknown, heads


def _order(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _value(option: Json, key: str) -> object:
    """What a column sorts by, unrounded."""
    estimate = option.get("estimate") or {}
    hardware, batch = estimate.get("hardware") or {}, estimate.get("batch") or {}
    values: dict[str, object] = {
        "rank": option.get("rank"),
        "gpus": (hardware.get("count") or 1, str(hardware.get("accelerator", ""))),
        "layout": (words.sharding(estimate), words.degrees(estimate)),
        "batch": batch.get("micro_batch_size") or 1,
        "recompute": words.recompute_name(estimate.get("recompute")),
        "memory": option.get("device_bytes"),
        "hours": option.get("hours"),
        "usd": option.get("usd"),
        "rate": option.get("usd_per_hour"),
        "step": option.get("step_seconds"),
        "mfu": time_of(option).get("mfu"),
    }
    return values[key]
