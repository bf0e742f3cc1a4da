"""The verdict of a convergence check: paired losses of a candidate and of fp32 AdamW, seed by seed; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from planner.errors import InvalidRequest
from planner.requests.fields import INVALID, Faults, Member, Number, Record, Whole
from planner.validation.compare import Comparison

OPTIONS = Record(
    {
        "steps": Member(Whole(20, 5_000), default=200),
        "seeds": Member(Whole(2, 16), default=5),
        "ranks": Member(Whole(1, 4), default=1, help="processes the candidate trains on, under the request's engine"),
        "learning_rate": Member(Number(0, 10, above=True), help="of the candidate; AdamW keeps its own"),
    }
)
STUDENT_95: Mapping[int, float] = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306,
    9: 2.262, 10: 2.228, 11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131,
}  # fmt: skip
"""Two-sided 95 % quantiles of Student's t by degrees of freedom (any table of it)."""
MARGIN = 0.01
"""Gaps below this share of the reference's loss matter to nobody."""
STALL = 0.25
"""A candidate that made less than this share of the reference's progress has stalled."""


def read_options(given: object) -> dict[str, Any]:
    """Steps, seeds and rate of a check, defaults filled in. Raises InvalidRequest."""
    faults = Faults()
    read = OPTIONS.read(given, "/options", faults)
    if read is INVALID or faults.found:
        raise InvalidRequest(faults.found)
    defaults = {name: member.default for name, member in OPTIONS.members.items() if member.default is not None}
    return {**defaults, **read}


def mean_and_interval(values: Sequence[float]) -> list[float]:
    """Mean of at least two values, and the ends of its 95 % interval."""
    middle, half = mean(values), STUDENT_95[len(values) - 1] * stdev(values) / math.sqrt(len(values))
    return [middle, middle - half, middle + half]


def noise_by_layer(seeds: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Errors of compressed moments by layer: mean over seeds and its 95 % interval, [mean, low, high]."""
    return [
        {
            name: mean_and_interval([row[name] for row in rows]) if isinstance(value, float) else value
            for name, value in rows[0].items()
        }
        for rows in zip(*seeds, strict=True)
    ]


def verdict(pairs: Sequence[tuple[float, float]], start: float) -> dict[str, Any]:
    """Gap (candidate - reference) of final losses with its 95 % interval, and what it comes to in a word.

    `pairs` holds (candidate, reference) of each seed, in nats per character; `start` is the loss before training.
    """
    finite = all(math.isfinite(candidate) for candidate, _ in pairs)
    reference = mean(loss for _, loss in pairs)
    if not finite or mean(candidate for candidate, _ in pairs) > start:
        return {"word": "diverged", "gap": None, "interval": None, "reference_loss": reference, "text": _DIVERGED}
    gap, *interval = mean_and_interval([candidate - loss for candidate, loss in pairs])
    made = (start - mean(candidate for candidate, _ in pairs)) / (start - reference)
    if interval[0] <= 0 <= interval[1] or abs(gap) <= MARGIN * reference:
        word = "indistinguishable"
    elif gap < 0:
        word = "better"
    else:
        word = "stalled" if made < STALL else "worse"
    text = f"{word}: {gap:+.4f} nats per character, 95 % interval {interval[0]:+.4f} to {interval[1]:+.4f}"
    return {
        "word": word,
        "gap": gap,
        "interval": interval,
        "reference_loss": reference,
        "share_of_progress": made,
        "text": text,
    }


_DIVERGED = "diverged: the loss rose above where it began, or is no number"


def compare_convergence(measured: Mapping[str, Any]) -> Comparison:
    """Nothing was predicted in numbers: the verdict is the answer; `agrees` stays unknown."""
    pairs = [(run["candidate"]["final_loss"], run["reference"]["final_loss"]) for run in measured["seeds"]]
    pairs = [(math.nan if candidate is None else candidate, loss) for candidate, loss in pairs]
    found = verdict(pairs, measured["start_loss"])
    told = {"verdict": found, "noise": noise_by_layer(measured["noise"])}
    return Comparison(lines=(), predicted=told, headline=None, notes=(found["text"],))
