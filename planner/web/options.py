"""The options of a plan as rows of one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from django.http import QueryDict

from planner.web import format as text
from planner.web import words
from planner.web.tables import Cell, Column, Row, Table, number, table
from planner.web.verdict import machine
from planner.web.words import Json

COLUMNS = (
    Column("rank", "#", right=True),
    Column("gpus", "GPUs", head=True),
    Column("layout", "Layout", tight=True),
    Column("batch", "Micro-batch", "\u00d7 accum.", right=True),
    Column("recompute", "Recompute"),
    Column("memory", "Memory", "GiB per GPU", right=True),
    Column("hours", "Hours", right=True),
    Column("usd", "Cost", "whole job", right=True),
    Column("rate", "$/h", "all GPUs", right=True),
    Column("step", "Step", "s", right=True),
    Column("mfu", "MFU", right=True),
    Column("optimizer", "Optimizer", optional=True),
    Column("precision", "Precision", tight=True, optional=True),
    Column("throughput", "Tokens/s", "per GPU", right=True, optional=True),
    Column("nodes", "Nodes", right=True, optional=True),
    Column("provider", "Provider", optional=True),
    Column("region", "Region", optional=True),
    Column("priced", "Price of", right=True, optional=True),
)
Explain = Callable[[int, str], str]
"""Address of the explanation of one number of one option."""


def memory_of(option: Json) -> Json:
    """An option's memory summary; the contract's own members where there is none."""
    summary: Json = option.get("memory") or option
    return summary


def time_of(option: Json) -> Json:
    """An option's time summary."""
    summary: Json = option.get("time") or {}
    return summary


def options_table(
    options: Sequence[Json], names: Mapping[str, str], links: tuple[Callable[[int], str], Explain], asked: QueryDict
) -> Table:
    """Every option as a row; `links` leads to an option and to the explanation of its numbers."""
    rows = [_row(option, names, *links) for option in options]
    return table("options", COLUMNS, rows, asked, "", anchor="options")


def marked(shown: Table, rank: int | None, caption: str) -> Table:
    """The table with the option the page is about marked."""
    lines = []
    for line in shown.rows:
        own = line.cells[0][1].order if line.cells[0][0].key == "rank" else None
        lines.append(replace(line, anchor="" if own is None else f"o{own}", current=own is not None and own == rank))
    return replace(shown, rows=tuple(lines), caption=caption)


def _row(option: Json, names: Mapping[str, str], link: Callable[[int], str], explain: Explain) -> Row:
    """Write one option out."""
    estimate, spent, offer = option.get("estimate") or {}, time_of(option), option.get("offer") or {}
    batch, rank = estimate.get("batch") or {}, option["rank"]
    micro, steps = batch.get("micro_batch_size") or 1, words.accumulation(estimate)
    hardware = estimate.get("hardware") or {}
    per_device = spent.get("tokens_per_second_per_device")
    hours, rate = option.get("hours"), option.get("usd_per_hour")
    return {
        "rank": Cell(str(rank), rank),
        "gpus": Cell(
            machine(estimate, names),
            (hardware.get("count") or 1, str(hardware.get("accelerator", ""))),
            small=place(option),
            href=link(rank),
        ),
        "layout": Cell(words.sharding(estimate), small=words.degrees(estimate)),
        "batch": Cell(f"{micro} \u00d7 {text.DASH if steps is None else steps}", micro),
        "recompute": Cell(
            words.recompute_name(estimate.get("recompute")), small=words.offload_name(estimate.get("offload"))
        ),
        "memory": _memory(option, explain(rank, "device")),
        "hours": number(
            hours, text.DASH if hours is None else text.hours_number(hours), explain=explain(rank, "hours")
        ),
        "usd": number(option.get("usd"), _dollars(option), explain=explain(rank, "cost") if option.get("usd") else ""),
        "rate": number(rate, text.rate_number(rate), explain=explain(rank, "rate") if rate is not None else ""),
        "step": number(
            option.get("step_seconds"), text.seconds_number(option.get("step_seconds")), explain=explain(rank, "step")
        ),
        "mfu": number(spent.get("mfu"), text.fraction(spent.get("mfu")), explain=explain(rank, "mfu")),
        "optimizer": Cell(words.optimizer_name(estimate.get("optimizer"))),
        "precision": Cell(words.precision_name(estimate.get("precision"))),
        "throughput": number(per_device, text.NOT_KNOWN if per_device is None else text.significant(per_device)),
        "nodes": number(option.get("nodes"), text.count(option.get("nodes"))),
        "provider": Cell(str(offer.get("provider") or text.DASH)),
        "region": Cell(str(offer.get("region") or text.DASH)),
        "priced": Cell(str(offer.get("price_date") or "no exact date") if offer else text.NO_PRICE),
    }


def _memory(option: Json, explain: str) -> Cell:
    device, headroom = option.get("device_bytes"), option.get("headroom_bytes")
    written = f"{text.need_number(device)} of {text.capacity_number(memory_of(option).get('capacity_bytes'))}"
    free = "" if headroom is None else f"{text.gib_number(headroom, 1)} free"
    return number(device, written, small=free, explain=explain)


def _dollars(option: Json) -> str:
    """The whole job's dollars; a job without a length has a rate and no total."""
    usd = option.get("usd")
    return text.DASH if usd is None and option.get("usd_per_hour") is not None else text.money(usd)


def place(option: Json) -> str:
    """'2 nodes · Lambda · on-demand · us-east', of what is known."""
    offer = option.get("offer") or {}
    nodes = option.get("nodes")
    parts = [f"{nodes:,} node{'' if nodes == 1 else 's'}"] if nodes else []
    parts += [str(offer[key]) for key in ("provider", "pricing", "region") if offer.get(key)]
    return " \u00b7 ".join(parts)
