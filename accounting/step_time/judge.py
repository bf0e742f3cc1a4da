"""How good a set of constants is: errors by source beside the null model's, and the band its residuals give."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from accounting.facts.calibration import Calibration, EngineRow, KernelRow, LowPrecisionRow, engine_families
from accounting.step_time.clock import kernel_styles, low_precision_style
from accounting.step_time.fit import Observation
from accounting.step_time.reach import places_of, spanned
from accounting.step_time.step import step_time

_Row = TypeVar("_Row", KernelRow, LowPrecisionRow)
_FEW = 10
_WIDER = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One measured step. `error` = predicted / measured - 1."""

    source: str
    accelerator: str
    engine: str
    """Family of engines."""
    error: float
    measured_hfu: float
    kernel: str = ""
    """Kernel style."""
    low_precision: str = ""
    """Row of the products below 16 bits, if there are any."""
    networked: bool = False
    """Whether it ran on more than one node."""
    place: tuple[tuple[str, int], ...] = ()
    """Its sizes, by the names of `reach.MEASURES`."""
    compute: str = ""
    """Type of its matrix products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    rows: int
    bias: float
    """Median signed error."""
    error: float
    """Mean absolute error."""
    null_error: float | None
    """Of one median HFU per source and accelerator, the row itself left out; None where there are too few."""


def judged(observation: Observation, sources: Sequence[str], calibration: Calibration) -> list[Judged]:
    """Every row of an observation with its error; rows without a prediction count as an error of -100 %."""
    timing = step_time(observation.scenario, observation.partition, calibration)
    error = np.nan_to_num(timing.step_seconds / observation.measured, nan=0.0) - 1
    machine, cuts = observation.scenario.machine, observation.scenario.layout.cp > 1
    families, styles = engine_families(observation.scenario), kernel_styles(observation.scenario)
    count = observation.scenario.layout.count
    return [
        Judged(
            engine=families[int(cuts[row, 0])],
            source=source,
            accelerator=machine.accelerators[int(machine.accelerator_index[row, 0])].slug,
            error=float(error[row, 0]),
            measured_hfu=float(timing.hfu[row, 0] * (1 + error[row, 0])),
            kernel=styles[int(cuts[row, 0])],
            low_precision=low_precision_style(observation.scenario),
            networked=bool(count[row, 0] > machine.devices_per_node[row, 0]),
            place=tuple(places_of(observation.scenario, row).items()),
            compute=observation.scenario.recipe.precision.compute,
        )
        for row, source in enumerate(sources)
    ]


def scores(rows: Sequence[Judged]) -> dict[str, Score]:
    """Score of every source, by name."""
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        cells[row.source, row.accelerator].append(row.measured_hfu)
    by_source: dict[str, list[Judged]] = defaultdict(list)
    for row in rows:
        by_source[row.source].append(row)
    found = {}
    for source, members in sorted(by_source.items()):
        nulls = []
        for row in members:
            others = list(cells[source, row.accelerator])
            others.remove(row.measured_hfu)
            if len(others) > 1:
                nulls.append(abs(row.measured_hfu / median(others) - 1))
        found[source] = Score(
            rows=len(members),
            bias=median(row.error for row in members),
            error=fmean(abs(row.error) for row in members),
            null_error=fmean(nulls) if nulls else None,
        )
    return found


def with_bands(calibration: Calibration, rows: Sequence[Judged], architectures: dict[str, str]) -> Calibration:
    """Each device family's 10th and 90th percentile of measured over predicted, wider where few were measured.

    Engines, kernel styles, low-precision types and the network get the number of their rows, engines their reach too.

    `architectures` gives the catalog's architecture of each accelerator slug.
    """
    ratios: dict[str, list[float]] = defaultdict(list)
    slugs: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.error > -1:
            family = calibration.device(row.accelerator, architectures[row.accelerator]).name
            ratios[family].append(1 / (1 + row.error))
            slugs[family].add(row.accelerator)
    devices = dict(calibration.devices)
    for family, values in ratios.items():
        low, high = (float(np.quantile(values, share)) for share in (0.1, 0.9))
        wider = _WIDER if len(values) < _FEW else 1.0
        band = (round(min(low / wider, 0.99), 3), round(max(high * wider, 1.01), 3))
        devices[family] = replace(devices[family], band=band, rows=len(values), measured=tuple(sorted(slugs[family])))
    return replace(
        calibration,
        devices=MappingProxyType(devices),
        engines=MappingProxyType({name: _reached(row, rows) for name, row in calibration.engines.items()}),
        kernels=_counted(calibration.kernels, Counter(row.kernel for row in rows)),
        low_precision=_counted(calibration.low_precision, Counter(row.low_precision for row in rows)),
        fabric=replace(calibration.fabric, rows=sum(row.networked for row in rows)),
    )


def _reached(engine: EngineRow, rows: Sequence[Judged]) -> EngineRow:
    """An engine family with the sizes and types that its measured steps span."""
    own = [row for row in rows if row.engine == engine.name]
    computes = tuple(sorted({row.compute for row in own}))
    return replace(engine, rows=len(own), reach=spanned([dict(row.place) for row in own]), computes=computes)


def _counted(table: Mapping[str, _Row], counts: Mapping[str, int]) -> Mapping[str, _Row]:
    return MappingProxyType({name: replace(row, rows=counts.get(name, 0)) for name, row in table.items()})
