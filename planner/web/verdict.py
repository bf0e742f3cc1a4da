"""The verdict: one sentence that says whether it fits, on what, how long and how much.

The word comes from where the likely range of the memory lies against the limit (capacity less the kept-free part).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.web import format as text
from planner.web.words import Json


@dataclass(frozen=True)
class Verdict:
    """`tone` is the class (ok, warn, bad, plain), `icon` the shape, `say` the sentence, `how` the line under it."""

    tone: str
    icon: str
    say: str
    how: str = ""


_UNKNOWN = ("plain", "unknown")
_STATES = {"fits": ("ok", "disc"), "probably": ("warn", "triangle"), "not": ("bad", "octagon"), "unknown": _UNKNOWN}


def fit_state(answer_memory: Json, kept_free: float) -> str:
    """fits, probably, probably-not, not or unknown, from the band against the limit, all in bytes."""
    capacity, device = answer_memory.get("capacity_bytes"), answer_memory.get("device_bytes")
    if capacity is None or device is None:
        return "unknown"
    low, high = answer_memory.get("device_bytes_band") or (device, device)
    limit = capacity * (1 - kept_free)
    if high <= limit:
        return "fits"
    if device <= limit:
        return "probably"
    return "probably-not" if low <= limit else "not"


def machine(estimate: Json, names: Mapping[str, str]) -> str:
    """'16 × H100 SXM5 80 GB'."""
    hardware = estimate.get("hardware") or {}
    slug = str(hardware.get("accelerator", ""))
    return f"{hardware.get('count') or 1:,}{text.NBSP}\u00d7{text.NBSP}{names.get(slug, slug)}"


def estimate_verdict(answer_memory: Json, on: str, kept_free: float) -> Verdict:
    """What one exact configuration comes to, in words."""
    state = fit_state(answer_memory, kept_free)
    device, capacity = answer_memory.get("device_bytes"), answer_memory.get("capacity_bytes")
    if state == "unknown" or device is None or capacity is None:
        return Verdict(
            *_UNKNOWN, "Cannot say: the catalog has no memory size for this GPU.", "Enter it under overrides."
        )
    low, high = answer_memory.get("device_bytes_band") or (device, device)
    limit = int(capacity * (1 - kept_free))
    of = f"{text.need_number(device)} of {text.capacity(capacity)} per GPU"
    likely = f"the likely range ({text.gib_number(low, 1)} to {text.memory(high)})"
    if state == "fits":
        return Verdict(*_STATES["fits"], f"Fits on {on}: {of}.", f"Even the high end of {likely} fits.")
    if state == "probably":
        room = f"{text.memory(limit - device)} below your {text.capacity(limit)} line"
        how = f"The expected peak is {room}, but {likely} crosses it."
        return Verdict(*_STATES["probably"], f"Probably fits on {on}: {of}.", how)
    needed = f"{text.need(device)} needed, {text.capacity(limit)} allowed per GPU"
    if state == "probably-not":
        over = text.memory(device - limit)
        how = f"The expected peak is {over} above the line, but the low end of {likely} is under it."
        return Verdict("bad", "triangle", f"Probably does not fit on {on}: {needed}.", how)
    says = f"Does not fit on {on}: {text.need(device)} needed, {text.capacity(capacity)} on the card."
    return Verdict(
        *_STATES["not"], says, f"It misses the line at {text.capacity(limit)} by {text.memory(device - limit)}."
    )


def option_verdict(option: Json, on: str, how: str, kept_free: float) -> Verdict:
    """What an option of a plan comes to: hours and dollars where they are known."""
    answer_memory = option.get("memory") or option
    state = fit_state(answer_memory, kept_free)
    word, look = ("Fits", "fits") if state == "fits" else ("Probably fits", "probably")
    hours, usd, rate = option.get("hours"), option.get("usd"), option.get("usd_per_hour")
    capacity, device = answer_memory.get("capacity_bytes"), answer_memory.get("device_bytes")
    if capacity is not None and device is not None:
        how = f"{how}. Needs {text.need(device)} of {text.capacity(capacity)} per GPU."
    if hours is None:
        price = f"at {text.money_rate(rate)} per hour" if rate is not None else "with no known price"
        says = f"{word} on {on} {price}. Give the number of tokens for time and total cost."
    elif usd is None:
        says = f"{word} on {on}: {text.hours_in_words(hours)}, no price known."
    else:
        says = f"{word} on {on}: {text.hours_in_words(hours)}, {text.money(usd)} for the whole job."
    return Verdict(*_STATES[look], says, how)


def no_plan_verdict(model: str, on: str, answer: Json) -> Verdict:
    """Nothing works: the closest candidate, by how much it misses, and the cheapest change that would do."""
    nearest: Json | None = next(iter(answer.get("nearest_misses") or ()), None)
    candidates, way_out = (answer.get("search") or {}).get("candidates"), _way_out(answer)
    says = f"Does not fit: no way to train {model} on {on}."
    looked = f"of {candidates:,} candidates" if candidates else "candidate"
    if nearest is None:
        return Verdict(*_STATES["not"], says, f"No {looked} came near; the reasons are counted below.{way_out}")
    if nearest.get("reason") == "deadline":
        late = (
            f"the fastest takes {text.hours(nearest.get('hours'))} ({text.hours(nearest.get('misses_by_hours'))} late)"
        )
        return Verdict("warn", "triangle", f"Fits, but not in time on {on}: {late}.", way_out.strip())
    if nearest.get("reason") == "budget":
        dear = f"the cheapest is {text.money(nearest.get('usd'))} ({text.money(nearest.get('misses_by_usd'))} over)"
        return Verdict("warn", "triangle", f"Fits, but not for the budget on {on}: {dear}.", way_out.strip())
    if nearest.get("reason") == "throughput":
        short = f"{nearest.get('misses_by_tokens_per_second') or 0:,.0f} tokens/s too few"
        return Verdict("warn", "triangle", f"Fits, but not fast enough on {on}: {short}.", way_out.strip())
    device = nearest.get("device_bytes")
    capacity = ((nearest.get("answer") or {}).get("memory") or {}).get("capacity_bytes")
    how = f"The closest {looked} needs {text.need(device)} of {text.capacity(capacity)} per GPU."
    missed = nearest.get("misses_by_bytes")
    how += f" Its likely range passes the line by {text.memory(missed)}." if missed else ""
    return Verdict(*_STATES["not"], says, how + way_out)


def _way_out(answer: Json) -> str:
    """The first change of the answer, as a sentence."""
    first = next(iter(answer.get("what_if") or ()), None)
    return "" if first is None else f" The cheapest change that works: {first.get('change')}."
