"""Bands and factors learnt from stored measurements: fitted on most, judged on the rest, versioned, revertible.

A set is data: rows of (kind, engine) with the factor measured / predicted and its range. `calibrated` applies it to an
answer; nothing else changes, so going back to an older set gives back its numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import Max

from accounting.version import ENGINE_VERSION
from planner.validation.models import CalibrationSet, ValidationRun, ValidationStatus

LEARNT_FROM = ("gpu", "import")
"""Kinds that measure a device; the others judge formulas to the byte and teach no band."""
HELD_OUT = 4
"""One measurement in so many judges instead of teaching."""
LEAST = 8
"""Measurements below which a row says nothing."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One measurement beside its prediction."""

    key: str
    engine: str
    predicted: int
    measured: int

    @property
    def ratio(self) -> float:
        return self.measured / self.predicted

    @property
    def held_out(self) -> bool:
        """By the measurement's own name: which ones judge never changes as others arrive."""
        return int(hashlib.sha256(self.key.encode()).hexdigest()[:8], 16) % HELD_OUT == 0


def learnt(pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """One row an engine with enough measurements: factor, band, errors on what was held out before and after."""
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.engine].append(pair)
    rows = []
    for engine, found in sorted(groups.items()):
        fitted = [pair for pair in found if not pair.held_out]
        judging = [pair for pair in found if pair.held_out]
        if len(fitted) < LEAST or not judging:
            continue
        low, factor, high = np.quantile([pair.ratio for pair in fitted], [0.05, 0.5, 0.95])
        before, after = (_errors(judging, scale) for scale in (1.0, float(factor)))
        rows.append(
            {
                "engine": engine,
                "factor": float(factor),
                "band": [float(low), float(high)],
                "fitted_on": len(fitted),
                "held_out": len(judging),
                "error_before": before,
                "error_after": after,
                "inside_band": sum(low <= pair.ratio <= high for pair in judging) / len(judging),
                "kept": after <= before,
            }
        )
    return rows


def _errors(pairs: Sequence[Pair], scale: float) -> float:
    """Mean absolute relative error of predictions times `scale`."""
    return sum(abs(pair.predicted * scale / pair.measured - 1) for pair in pairs) / len(pairs)


def calibrated(memory: Mapping[str, Any], engine: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a set says of an answer's `memory`: expected device bytes, their band, the measurements behind both.

    A row that made the held-out error larger only widens the band; without a row the answer's own band stands.
    """
    expected, band = memory["device_bytes"], list(memory["device_bytes_band"])
    row = next((row for row in rows if row["engine"] == engine), None)
    if row is None:
        return {"device_bytes": expected, "device_bytes_band": band, "measurements": 0}
    low, high = (math.floor(expected * row["band"][0]), math.ceil(expected * row["band"][1]))
    if not row["kept"]:
        return {
            "device_bytes": expected,
            "device_bytes_band": [min(low, band[0]), max(high, band[1])],
            "measurements": row["fitted_on"],
        }
    return {
        "device_bytes": round(expected * row["factor"]),
        "device_bytes_band": [low, high],
        "measurements": row["fitted_on"],
    }


def distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How far two configurations lie apart: doublings of parameters, devices and tokens, added up."""
    names = ("parameters", "devices", "tokens")
    return sum(abs(math.log2(max(1.0, one[name]) / max(1.0, other[name]))) for name in names)


def measured_pairs() -> list[Pair]:
    """Every stored measurement of a device that has a prediction, oldest first."""
    runs = ValidationRun.objects.filter(
        kind__in=LEARNT_FROM,
        status=ValidationStatus.SUCCEEDED,
        predicted_bytes__gt=0,
        measured_bytes__gt=0,
    ).order_by("finished_at", "pk")
    rows = runs.values_list("pk", "sharding_engine", "predicted_bytes", "measured_bytes")
    return [
        Pair(str(pk), engine, predicted, measured)
        for pk, engine, predicted, measured in rows
        if predicted is not None and measured is not None
    ]


@transaction.atomic
def calibration_learn() -> CalibrationSet | None:
    """Store what the present measurements teach as a new version and put it in force; None where they teach nothing."""
    pairs = measured_pairs()
    rows = learnt(pairs)
    if not rows:
        return None
    newest = ValidationRun.objects.filter(kind__in=LEARNT_FROM).aggregate(newest=Max("finished_at"))["newest"]
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
    """Put a version in force, or none: the shipped bands then stand. Raises CalibrationSet.DoesNotExist."""
    CalibrationSet.objects.filter(in_force=True).update(in_force=False)
    if version is None:
        return None
    chosen = CalibrationSet.objects.get(version=version)
    chosen.in_force = True
    chosen.save(update_fields=["in_force"])
    return chosen


def rows_in_force() -> list[dict[str, Any]]:
    """Rows of the set in force; empty where none is."""
    found = CalibrationSet.objects.filter(in_force=True).first()
    rows: list[dict[str, Any]] = json.loads(found.rows) if found is not None else []
    return rows
