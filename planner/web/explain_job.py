"""Hours, dollars and throughput of a job with their formulas filled in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.web import format as text
from planner.web import words
from planner.web.explain_inputs import Input
from planner.web.explanation import Asked, ExplainedLine, time_trust
from planner.web.words import Json


@dataclass(frozen=True)
class Filled:
    """The values of one total: its number, the formula with them, the parts it is made of, and what goes in."""

    value: str
    filled: str
    share: str = ""
    parts: tuple[ExplainedLine, ...] = ()
    inputs: tuple[Input, ...] = ()
    trust: str = ""


def _steps(asked: Asked) -> tuple[int, int] | None:
    """(tokens of a step, steps of the job)."""
    batch = asked.request.get("batch") or {}
    sequences, length = batch.get("global_batch_size"), batch.get("sequence_length")
    if not sequences or not length or not asked.tokens:
        return None
    return sequences * length, math.ceil(asked.tokens / (sequences * length))


def hours(asked: Asked) -> Filled | None:
    hours, step = asked.option.get("hours"), (asked.answer.get("time") or {}).get("step_seconds")
    counted = _steps(asked)
    if not hours or not step or counted is None:
        return None
    per_step, steps = counted
    goodput = steps * step / 3600 / hours
    low, high = asked.option.get("hours_band") or (hours, hours)
    every = (asked.option.get("run") or {}).get("checkpoint_interval_seconds")
    inputs = (
        Input("tokens", "tokens of the job", text.count(asked.tokens), "the plan request"),
        Input("batch", "tokens of a step", text.count(per_step), asked.asked_by),
        Input("steps", "steps of the job", text.count(steps), "tokens / batch, rounded up"),
        Input("step", "seconds per step", text.duration(step), "the step's own explanation"),
        Input("goodput", "share of the time that trains", text.share(goodput, 1.0), "failures and checkpoints"),
        *(
            (Input("interval", "time between checkpoints", text.duration(every), "Young and Daly: loses least"),)
            if every
            else ()
        ),
    )
    filled = f"{steps:,} \u00b7 {text.fixed(step, 3)} s / {text.fixed(goodput, 4)} / 3600"
    trust = f"Likely between {text.hours(low)} and {text.hours(high)}, as the step is."
    return Filled(text.hours(hours), filled, f"= {text.fixed(hours, 2)} h", (), inputs, trust)


def _offer_inputs(offer: Json) -> tuple[Input, ...]:
    """What the price is: whose, where, of what day, from which source."""
    if not offer:
        return ()
    whose, what = (
        ", ".join(str(offer[key]) for key in keys if offer.get(key))
        for keys in (("provider", "region", "pricing"), ("instance",))
    )
    count, usd = offer.get("accelerator_count"), offer.get("usd_per_hour")
    day = str(offer.get("price_date") or "no exact day")
    found = [Input("offer", "whose price", whose, str(offer.get("source") or "catalog"))]
    found += [Input("type", "what is rented", what, "catalog")] if what else []
    if usd is not None:
        found.append(Input("instance", "USD per hour", text.money_rate(usd), f"price of {day}"))
    if count:
        found.append(Input("size", "GPUs of an instance", text.count(count), "catalog"))
    return tuple(found)


def _offer(asked: Asked) -> Json:
    return asked.option.get("offer") or (asked.answer.get("cost") or {}).get("offer") or {}


def cost(asked: Asked) -> Filled | None:
    usd, rate, hours = (asked.option.get(name) for name in ("usd", "usd_per_hour", "hours"))
    if usd is None or rate is None or hours is None:
        return None
    low, high = asked.option.get("usd_band") or (usd, usd)
    paid = (asked.option.get("run") or {}).get("billed_hours") or hours
    inputs = (
        Input("hours", "hours of the job", text.fixed(hours, 2), "the time's own explanation"),
        Input("billed", "hours that are paid", text.fixed(paid, 2), words.billing(_offer(asked))),
        Input("rate", "USD per hour, all GPUs", text.money_rate(rate), "GPUs \u00b7 price"),
        *_offer_inputs(_offer(asked)),
    )
    filled = f"{text.fixed(paid, 3)} \u00b7 {text.money_rate(rate)}"
    trust = f"Likely between {text.money(low)} and {text.money(high)}: the price is as it stands, the hours may differ."
    return Filled(text.money(usd), filled, f"= ${text.fixed(usd, 2)}", (), inputs, trust)


def rate(asked: Asked) -> Filled | None:
    rate = asked.option.get("usd_per_hour") or (asked.answer.get("cost") or {}).get("usd_per_hour")
    if rate is None:
        return None
    offer, count = _offer(asked), int((asked.request.get("hardware") or {}).get("count") or 1)
    each = text.money_fine(rate / count)
    inputs = (Input("GPUs", "GPUs of the job", f"{count:,}", asked.asked_by), *_offer_inputs(offer))
    trust = "A price is a fact of its day: its age stands beside it, and the hardware page shows its history."
    return Filled(text.money_rate(rate), f"{count:,} \u00b7 {each}", f"= {text.money_rate(rate)}", (), inputs, trust)


def throughput(asked: Asked) -> Filled | None:
    spent = asked.answer.get("time") or {}
    each, step = spent.get("tokens_per_second_per_device"), spent.get("step_seconds")
    if not each or not step:
        return None
    count = int((asked.request.get("hardware") or {}).get("count") or 1)
    tokens = round(each * count * step)
    inputs = (
        Input("batch", "tokens of a step", text.count(tokens), asked.asked_by),
        Input("step", "seconds per step", text.duration(step), "the step's own explanation"),
        Input("GPUs", "GPUs of the job", f"{count:,}", asked.asked_by),
    )
    value = f"{text.significant(each)}{text.NBSP}tokens/s"
    return Filled(
        value,
        f"{tokens:,} / {text.fixed(step, 3)} s / {count:,}",
        f"= {text.fixed(each, 1)}",
        (),
        inputs,
        time_trust(asked),
    )


def mfu(asked: Asked) -> Filled | None:
    spent = asked.answer.get("time") or {}
    mfu, step, peak = (spent.get(name) for name in ("mfu", "step_seconds", "peak_flops_per_device"))
    if mfu is None or not step or not peak:
        return None
    count = int((asked.request.get("hardware") or {}).get("count") or 1)
    needed = mfu * count * peak * step
    tera = 1e12
    inputs = (
        Input("FLOP", "model FLOP of a step", f"{text.significant(needed / tera / 1000)}{text.NBSP}PFLOP", "the model"),
        Input("peak", "dense peak of a GPU", f"{text.significant(peak / tera)}{text.NBSP}TFLOP/s", "catalog"),
        Input("step", "seconds per step", text.duration(step), "the step's own explanation"),
        Input("GPUs", "GPUs of the job", f"{count:,}", asked.asked_by),
    )
    filled = (
        f"{text.significant(needed / tera)} TFLOP / ({count:,} \u00b7 {text.significant(peak / tera)} TFLOP/s \u00b7 "
    )
    filled += f"{text.fixed(step, 3)} s)"
    return Filled(text.fraction(mfu), filled, f"= {text.fixed(mfu, 4)}", (), inputs, time_trust(asked))
