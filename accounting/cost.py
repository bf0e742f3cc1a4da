"""From seconds a step to hours, dollars and energy of a whole run, failures and checkpoints included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accounting.units import Bytes, Floats

SECONDS_PER_HOUR = 3600.0
MILLION = 1e6
WATTS_PER_KILOWATT = 1000.0


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
        usd_per_hour=per_hour,
        usd=hours * per_hour,
        usd_per_million_tokens=per_million,
        energy_kilowatt_hours=hours * devices * power_watts / WATTS_PER_KILOWATT,
    )


def billed_usd(cost: RunCost, period_hours: float) -> Floats:
    """Dollars where the provider bills whole periods: ceil(hours / period) · period · dollars an hour. [USD, (N, 1)]

    `RunCost.usd` is by the second. An unknown price or length stays NaN.
    """
    return np.ceil(cost.hours / period_hours) * period_hours * cost.usd_per_hour
