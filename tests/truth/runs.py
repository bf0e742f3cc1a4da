"""Peak memory of published training runs beside what accounting says: one row a run, tables by source and code base.

`runs.jsonl.gz` holds the requests and what was measured. Constants were fitted on its part `fit` alone; part `report`
judges, and its figures are the ones to quote.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from accounting.estimate import memory_of
from accounting.implementation import code_of
from hardware.records import catalog_from_csv
from planner.requests import RequestContext, read_estimate

RUNS = Path(__file__).with_name("runs.jsonl.gz")
TABLE = Path(__file__).parents[2] / "docs" / "validation" / "memory.csv"
UNSTATED_REACH = 1.15
"""Where a source does not say which of two readings it printed, the upper one counts up to this times the lower."""
GOAL = 0.10


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run and its prediction, bytes of the worst rank."""

    id: str
    part: str
    source: str
    code: str
    """The code base it is priced as."""
    reading: str
    """`allocated`, `reserved`, `device`, or two of them where the source does not say."""
    measured: int
    low: int
    """The predicted reading; of two, the smaller."""
    high: int
    upper_factor: float
    """Upper end of the likely range over the expected reading."""

    @property
    def error(self) -> float:
        """Predicted over measured less one; 0 between two readings."""
        nearest = min(max(self.measured, self.low), self.high)
        return nearest / self.measured - 1

    @property
    def predicted(self) -> int:
        """The reading that is compared."""
        return min(max(self.measured, self.low), self.high)

    @property
    def over_range(self) -> bool:
        """Measured above the answer's own upper end."""
        return (1 + self.error) * self.upper_factor < 1


def published(path: Path = RUNS) -> list[dict[str, Any]]:
    """The rows as they were collected."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def predicted(rows: Iterable[Mapping[str, Any]]) -> Iterator[Run]:
    """What accounting says of each row today."""
    context = RequestContext(catalog=catalog_from_csv(), find_model=_no_model, pools={})
    for row in rows:
        scenario = read_estimate(row["request"], context)
        _, _, device = memory_of(scenario)
        worst = int(np.argmax(device.total, axis=1)[0])
        levels = {
            "allocated": int(device.allocated[0, worst]),
            "reserved": int(device.reserved[0, worst]),
            "device": int(device.total[0, worst]),
        }
        ((key, measured),) = row["expect"].items()
        reading = key.removeprefix("peak_").removesuffix("_bytes")
        values = [levels[name] for name in reading.split("_or_")]
        code = code_of(scenario.recipe)
        yield Run(
            id=row["id"],
            part=row["part"],
            source=row["source"],
            code=code.name if code is not None else "none",
            reading=reading.replace("_", " "),
            measured=int(measured),
            low=min(values),
            high=min(max(values), int(UNSTATED_REACH * min(values))),
            upper_factor=round(float(device.high[0, worst]) / levels["device"], 4),
        )


def _no_model(slug: str) -> Any:
    raise KeyError(slug)


def written(runs: Iterable[Run]) -> str:
    """The runs as a CSV file."""
    text = io.StringIO()
    names = [item.name for item in fields(Run)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: getattr(run, name) for name in names} for run in runs)
    return text.getvalue()


def stored(path: Path = TABLE) -> list[Run]:
    """The runs of the committed table."""
    whole, real = ("measured", "low", "high"), ("upper_factor",)
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            Run(
                **{name: int(row[name]) for name in whole},
                **{name: float(row[name]) for name in real},
                **{name: value for name, value in row.items() if name not in (*whole, *real)},
            )
            for row in csv.DictReader(lines)
        ]


@dataclass(frozen=True, slots=True)
class Summary:
    runs: int
    median: float
    mean: float
    """Mean of the absolute errors."""
    within: float
    """Share within GOAL."""
    over_range: float


def summary(runs: list[Run]) -> Summary:
    """Errors of some runs."""
    errors = [run.error for run in runs]
    return Summary(
        runs=len(runs),
        median=statistics.median(errors),
        mean=statistics.fmean(map(abs, errors)),
        within=statistics.fmean(abs(error) <= GOAL for error in errors),
        over_range=statistics.fmean(run.over_range for run in runs),
    )


def by(runs: Iterable[Run], member: str) -> dict[str, list[Run]]:
    """Runs by one of their members, in order of its values."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(getattr(run, member), []).append(run)
    return dict(sorted(found.items()))


def mean_of_sources(runs: Iterable[Run]) -> float:
    """The mean over sources of their mean absolute error: a source of 500 runs counts like one of five."""
    return statistics.fmean(summary(members).mean for members in by(runs, "source").values())
