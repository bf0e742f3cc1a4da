"""One estimate for a terminal: the verdict, the ledger at its peak with a bar per bucket, and the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accounting.units import TERA
from planner.text.table import Column, ascii_text, table
from planner.web import format as numbers
from planner.web import words
from planner.web.traffic import traffic
from planner.web.verdict import estimate_verdict, machine

Json = Mapping[str, Any]

BAR_SHARE = 0.05
"""One `#` is 5 % of the card."""


def render_estimate(answer: Json, request: Json, names: Mapping[str, str]) -> str:
    """The table for people; `request` is the estimate request that was answered."""
    held = answer["memory"]
    verdict = estimate_verdict(held, machine(request, names), float(request.get("headroom") or 0.0))
    lines = [verdict.say, *([verdict.how] if verdict.how else []), "", *_memory(held), "", *_step(answer)]
    lines += [f"Warning: {warning}" for warning in answer["warnings"]]
    lines += [f"Assumed: {assumption}" for assumption in answer["assumptions"]]
    return "\n".join(ascii_text(line) for line in lines)


def _memory(held: Json) -> list[str]:
    capacity = held.get("capacity_bytes")
    rows = [
        _row(title, held["by_bucket"][bucket], capacity, _how(held, bucket))
        for bucket, _, title in words.BUCKETS
        if held["by_bucket"].get(bucket)
    ]
    peak, reserved, device = held["peak_allocated_bytes"], held["peak_reserved_bytes"], held["device_bytes"]
    rows.append(_row("= Peak allocated", peak, capacity, "max_memory_allocated"))
    if None not in (peak, reserved, device):
        rows.append(_row("Allocator slack", reserved - peak, capacity, "reserved but not used"))
        rows.append(_row("Context and collectives", device - reserved, capacity, "outside the allocator"))
    rows.append(_row("= Device", device, capacity, "nvidia-smi"))
    title = f"MEMORY PER GPU, {words.phase(held.get('peak_phase'))}"
    columns = (
        Column(title, essential=True),
        Column(""),
        Column("GiB", right=True, essential=True),
        Column("OF CARD", right=True, essential=True),
        Column("HOW IT COMES ABOUT"),
    )
    return [table(columns, rows)]


def _row(title: str, size: int | None, capacity: int | None, how: str) -> list[str]:
    bar = "#" * round(size / capacity / BAR_SHARE) if size and capacity else ""
    return [title, bar, numbers.gib_number(size), numbers.share(size, capacity), how]


def _how(held: Json, bucket: str) -> str:
    """The largest line of a bucket at the peak: what it is made of, and by how much it is divided."""
    phase = held["peak_phase"]
    lines = [line for line in held["lines"] if line["bucket"] == bucket and line["device"]]
    largest = max(lines, key=lambda line: line["bytes_by_phase"].get(phase) or 0)
    if largest.get("how"):
        return f"{largest['how']}" if len(lines) == 1 else f"{largest['how']}; {len(lines) - 1} more"
    parts = [largest.get("dtype") or "", f"/ {largest['divisor']}" if (largest.get("divisor") or 1) != 1 else ""]
    said = " ".join(part for part in (largest["formula"], *parts) if part)
    return said if len(lines) == 1 else f"{said}; {len(lines) - 1} more"


def _step(answer: Json) -> list[str]:
    time, cost = answer.get("time") or {}, answer.get("cost") or {}
    if time.get("step_seconds") is None:
        return []
    rate = numbers.significant(time["tokens_per_second"])
    return [
        f"STEP {numbers.duration(time['step_seconds'])}   {rate} tokens/s, all GPUs"
        f"   {_utilisation(time)}"
        f"   {_per_million(cost)}",
        *_spent(time, answer.get("communication") or {}),
        *_price(cost),
        "",
    ]


def _utilisation(time: Json) -> str:
    """MFU and HFU with what they divide by."""
    peak = time.get("peak_flops_per_device")
    shares = f"MFU {numbers.fraction(time.get('mfu'))}, HFU {numbers.fraction(time.get('hfu'))}"
    return shares if not peak else f"{shares} of {numbers.significant(peak / TERA)} TFLOP/s a GPU"


def _per_million(cost: Json) -> str:
    return f"{numbers.money_fine(cost.get('usd_per_million_tokens'))} per million tokens"


def _spent(time: Json, communication: Json) -> list[str]:
    """Where the seconds go, what is sent, and whether a network binds."""
    parts = [
        f"{name.lower()} {numbers.share(time['parts'][slug], time['step_seconds'])}"
        for slug, name in words.TIME_PARTS
        if time["parts"].get(slug)
    ]
    low, high = time.get("band") or (None, None)
    lines = [f"LIKELY {numbers.duration(low)} to {numbers.duration(high)}: {', '.join(parts)}"]
    sent = traffic(communication)
    if sent is None:
        return lines
    kinds = ", ".join(f"{row.name.lower()} {row.size}" for row in sent.collectives)
    links = ", ".join(
        f"{row.name.lower()} {row.size} (waits {row.waits}, half speed +{row.half})" for row in sent.links
    )
    lines += [f"SENT {sent.total} a GPU and step: {kinds}"] if sent.collectives else []
    return [*lines, f"LINKS {links}", f"NETWORK {sent.says}"]


def _price(cost: Json) -> list[str]:
    """The price behind the dollars: whose, of which kind and day, and how it is billed."""
    offer = cost.get("offer")
    if not offer:
        return ["PRICE not known (price_unknown)"] if cost.get("usd_per_hour") is None else []
    terms = " ".join(
        str(offer[name]) for name in ("provider", "instance", "region", "pricing", "commitment") if offer[name]
    )
    day = offer.get("price_date") or "no exact day"
    return [
        f"PRICE {numbers.money_rate(cost['usd_per_hour'])} an hour: {terms}, of {day}, billed {words.billing(offer)}"
    ]
