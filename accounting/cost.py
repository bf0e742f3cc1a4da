"""From seconds a step to hours, dollars and energy of a whole run, failures and checkpoints included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accounting.catalog import Offer
from accounting.units import Bytes, Floats

SECONDS_PER_HOUR = 3600.0
MILLION = 1e6
WATTS_PER_KILOWATT = 1000.0
ROUNDING = 1e-12
"""Share of a length that is noise of the arithmetic: exactly two periods are two, not three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruptions:
    """What keeps a cluster from training all the time."""

    checkpoint_seconds: float = 60.0
    restart_seconds: float = 600.0
    failures_per_device_hour: float = 5e-6
    preemptions_per_device_hour: float = 0.0
    """What a spot offer adds: devices taken back before the run is done."""

    @property
    def losses_per_device_hour(self) -> float:
        """Failures and preemptions together: both cost a restart and the work since the last checkpoint."""
        return self.failures_per_device_hour + self.preemptions_per_device_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """float64 of shape (N, 1); NaN where a fact or the number of tokens is unknown."""

    steps: Floats
    goodput: Floats
    """Share of the wall time that trains."""
    checkpoint_interval_seconds: Floats
    hours: Floats
    billed_hours: Floats
    """Hours that are paid for: whole billing periods, once somebody has billed the run."""
    usd_per_hour: Floats
    usd: Floats
    usd_per_million_tokens: Floats
    energy_kilowatt_hours: Floats


def goodput(count: Bytes, interruptions: Interruptions) -> tuple[Floats, Floats]:
    """(share of wall time that trains, seconds between checkpoints). [(N, 1) each]

    interval t = sqrt(2 · c / (λ · n)); goodput = 1 - c/t - (t/2 + r) · n · λ, never below zero
    (c checkpoint, r restart, λ failures and preemptions per device and second, n devices)

    Source: Young 1974; Daly 2006, first order.
    """
    rate = interruptions.losses_per_device_hour / SECONDS_PER_HOUR * np.asarray(count, dtype=np.float64)
    if interruptions.losses_per_device_hour == 0:
        return np.ones_like(rate), np.full_like(rate, np.inf)
    if interruptions.checkpoint_seconds == 0:
        interval = np.zeros_like(rate)
        return np.maximum(1.0 - interruptions.restart_seconds * rate, 0.0), interval
    interval = np.sqrt(2.0 * interruptions.checkpoint_seconds / rate)
    lost = interruptions.checkpoint_seconds / interval + (interval / 2.0 + interruptions.restart_seconds) * rate
    return np.maximum(1.0 - lost, 0.0), interval


def run_cost(
    *,
    step_seconds: Floats,
    tokens_per_step: Bytes,
    count: Bytes,
    usd_per_device_hour: Floats,
    power_watts: Floats,
    tokens: int | None,
    interruptions: Interruptions | None = None,
) -> RunCost:
    """Hours, dollars and energy of training on `tokens` tokens.

    hours = ceil(tokens / tokens per step) · seconds per step / goodput / 3600; usd = hours · devices · price
    Whole instances are in the price already: `usd_per_device_hour` spreads what is rented over the devices used.

    Power is the card's limit: energy is an upper bound. An unknown price stays NaN, never zero; with `tokens` None only
    the rates are known. A goodput of zero gives infinite hours: the run never ends.
    """
    share, interval = goodput(count, interruptions or Interruptions())
    devices = np.asarray(count, dtype=np.float64)
    per_hour = devices * usd_per_device_hour
    per_step = np.asarray(tokens_per_step, dtype=np.float64)
    steps = np.full_like(per_step, np.nan) if tokens is None else np.ceil(tokens / per_step)
    with np.errstate(divide="ignore"):
        hours = steps * step_seconds / share / SECONDS_PER_HOUR
        tokens_per_hour = per_step / step_seconds * share * SECONDS_PER_HOUR
        per_million = per_hour / tokens_per_hour * MILLION
    return RunCost(
        steps=steps,
        goodput=share,
        checkpoint_interval_seconds=interval,
        hours=hours,
        billed_hours=hours,
        usd_per_hour=per_hour,
        usd=hours * per_hour,
        usd_per_million_tokens=per_million,
        energy_kilowatt_hours=hours * devices * power_watts / WATTS_PER_KILOWATT,
    )


@dataclass(frozen=True, slots=True)
class Billing:
    """How usage is rounded up, float64 hours; zero = not at all."""

    period: Floats
    minimum: Floats


def billing_of(offers: Sequence[Offer | None], index: NDArray[np.int64]) -> Billing:
    """The billing terms of each candidate's offer; by the second where they are not known. [hours, shape of `index`]"""
    terms = [(0.0, 0.0) if offer is None else billing_terms(offer) for offer in offers]
    table = np.asarray(terms, dtype=np.float64).reshape(-1, 2) / SECONDS_PER_HOUR
    return Billing(period=table[index, 0], minimum=table[index, 1])


def billing_terms(offer: Offer) -> tuple[float, float]:
    """(period, minimum) of an offer; zeros where nothing is known. [seconds]"""
    return offer.billing_period_seconds or 0.0, offer.billing_minimum_seconds or 0.0


def billed_hours(hours: Floats, billing: Billing) -> Floats:
    """Hours that are paid for: ceil(max(hours, minimum) / period) · period. NaN and infinity stay. [hours]

    A run is billed as one piece: a spot instance that comes back after a preemption starts its periods anew, which
    costs up to one period more each time and is not counted.
    """
    least = np.maximum(hours, billing.minimum)
    period = np.where(billing.period > 0, billing.period, 1.0)
    whole = np.ceil(least / period * (1.0 - ROUNDING)) * period
    return np.where(billing.period > 0, np.maximum(whole, period), least)


def billed(cost: RunCost, billing: Billing, tokens: int | None) -> RunCost:
    """The same run in whole billing periods: usd = billed hours · dollars an hour, and what a token costs so.

    An unknown price or length stays NaN; without `tokens` the rates are what they were.
    """
    paid = billed_hours(cost.hours, billing)
    usd = paid * cost.usd_per_hour
    each = cost.usd_per_million_tokens if tokens is None else usd / tokens * MILLION
    return replace(cost, billed_hours=paid, usd=usd, usd_per_million_tokens=each)
