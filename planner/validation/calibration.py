"""Likely ranges and factors learnt from stored measurements: fitted on most, judged on the rest, versioned, revertible.

A set is data. The one in force becomes the `Evidence` of every request that is read; nothing else changes, so going
back to an older set gives back its numbers.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from django.db import connection, transaction

from accounting.evidence import Evidence, Point
from accounting.facts.bands import Band, band
from accounting.version import ENGINE_VERSION
from planner.validation.models import CalibrationSet

POINTS = Path(__file__).with_name("data") / "measured_points.csv"
"""Configurations of the published runs that the shipped ranges were fitted on."""
HELD_OUT = 4
"""One configuration in so many judges instead of teaching."""
LEAST = 10
"""Fitted measurements below which a range says nothing: as for the shipped ones."""
LOW, MIDDLE, HIGH = 0.05, 0.5, 0.95


@dataclass(frozen=True, slots=True)
class Pair:
    """One measurement beside what the formulas alone say of it."""

    key: str
    """Names the configuration: its repetitions stand on the same side of the holdout."""
    range: str
    predicted: int
    measured: int
    point: Point

    @property
    def ratio(self) -> float:
        return self.measured / self.predicted

    @property
    def held_out(self) -> bool:
        """By the configuration's own name: which ones judge never changes as others arrive."""
        return is_held_out(self.key)


def is_held_out(key: str) -> bool:
    """Whether a configuration judges instead of teaching."""
    return int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) % HELD_OUT == 0


def learnt(pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """One row a range with enough measurements: factor, ends, errors on what was held out before and after."""
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.range].append(pair)
    return [row for name, found in sorted(groups.items()) if (row := _row(name, found)) is not None]


def _row(name: str, found: Sequence[Pair]) -> dict[str, Any] | None:
    fitted = [pair for pair in found if not pair.held_out]
    judging = [pair for pair in found if pair.held_out]
    if len(fitted) < LEAST or not judging:
        return None
    ratios = [pair.ratio for pair in fitted]
    factor = float(np.quantile(ratios, MIDDLE))
    # Of few measurements the next one outwards: a range from ten runs is as wide as all of them.
    low = float(np.quantile(ratios, LOW, method="lower"))
    high = float(np.quantile(ratios, HIGH, method="higher"))
    before, after = (_error(judging, scale) for scale in (1.0, factor))
    return {
        "range": name,
        "factor": factor,
        "band": [low, high],
        "fitted_on": len(fitted),
        "held_out": len(judging),
        "error_before": before,
        "error_after": after,
        "inside_band": sum(low <= pair.ratio <= high for pair in judging) / len(judging),
        "kept": after <= before,
        "points": [
            [point.parameters, point.devices, point.tokens, runs]
            for point, runs in Counter(pair.point for pair in fitted).items()
        ],
    }


def _error(pairs: Sequence[Pair], scale: float) -> float:
    """Mean absolute relative error of predictions times `scale`."""
    return sum(abs(pair.predicted * scale / pair.measured - 1) for pair in pairs) / len(pairs)


def band_of(row: Mapping[str, Any]) -> Band:
    """A learnt row as the range of answers.

    Where the factor made the held-out error larger, it is not applied and the row only widens the shipped range.
    """
    low, high = row["band"]
    if row["kept"]:
        return Band(low=low, high=high, runs=row["fitted_on"], factor=row["factor"])
    shipped = band(row["range"])
    return Band(
        low=min(low, shipped.low),
        high=max(high, shipped.high),
        runs=shipped.runs + row["fitted_on"],
        why="own measurements scatter: they widen the shipped range",
    )


@cache
def shipped_points() -> Mapping[str, tuple[Point, ...]]:
    """Measured configurations behind the shipped ranges, by range."""
    found: dict[str, list[Point]] = defaultdict(list)
    with POINTS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = {name: int(row[name]) for name in ("parameters", "devices", "tokens", "runs")}
            found[row["range"]].append(Point(**numbers))
    return {name: tuple(points) for name, points in found.items()}


def evidence_in_force() -> Evidence:
    """What every request is read with: the set in force, and the measured configurations behind all ranges.

    A set of another engine version is left alone: it counts from other predictions.
    """
    with connection.cursor() as cursor:
        cursor.execute(_IN_FORCE_QUERY, [ENGINE_VERSION])
        found = cursor.fetchone()
    return _shipped() if found is None else _evidence(*found)


_IN_FORCE_QUERY = f"""
    SELECT id, created_at FROM {CalibrationSet._meta.db_table} WHERE in_force AND engine_version = %s
"""
"""Written out, for every request makes it: the ORM builds it longer than the database answers."""


@lru_cache(maxsize=1)
def _shipped() -> Evidence:
    return Evidence(points=shipped_points())


@lru_cache(maxsize=4)
def _evidence(pk: int, created_at: datetime | str) -> Evidence:
    """A stored set never changes; `created_at` only tells one database from another."""
    found = CalibrationSet.objects.get(pk=pk)
    rows = json.loads(found.rows)
    points = dict(shipped_points())
    for row in rows:
        own = tuple(Point(parameters=p, devices=d, tokens=t, runs=n) for p, d, t, n in row["points"])
        points[row["range"]] = own if row["kept"] else (*points.get(row["range"], ()), *own)
    return Evidence(version=found.version, bands={row["range"]: band_of(row) for row in rows}, points=points)


@transaction.atomic
def calibration_store(*, pairs: Sequence[Pair], newest: datetime | None) -> CalibrationSet | None:
    """Store what measurements teach as a new version and put it in force; None where they teach nothing."""
    rows = learnt(pairs)
    if not rows:
        return None
    last = CalibrationSet.objects.select_for_update().order_by("-version").first()
    made = CalibrationSet.objects.create(
        version=1 if last is None else last.version + 1,
        rows=json.dumps(rows, separators=(",", ":")),
        measurements=len(pairs),
        newest=newest,
        engine_version=ENGINE_VERSION,
    )
    return calibration_use(version=made.version)


@transaction.atomic
def calibration_use(*, version: int | None) -> CalibrationSet | None:
    """Put a version in force, or none: the shipped ranges then stand. Raises CalibrationSet.DoesNotExist."""
    chosen = None if version is None else CalibrationSet.objects.get(version=version)
    CalibrationSet.objects.filter(in_force=True).update(in_force=False)
    if chosen is not None:
        chosen.in_force = True
        chosen.save(update_fields=["in_force"])
    return chosen
