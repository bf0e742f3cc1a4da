"""What to say of a predicted time: devices, sizes, types and efficiencies that no measured step stands behind."""

from __future__ import annotations

from collections.abc import Iterator

from accounting.step_time.clock import Clock, dense_rate
from accounting.step_time.reach import beyond
from accounting.units import TERA, Floats

_WHOLE = ("MFU", 0.02, 0.65), ("HFU", 0.02, 0.8)
_NARROW = ("MFU", 0.02, 0.5), ("HFU", 0.02, 0.6)
"""Outside of these lies no published run that the constants were fitted on, in 16 bits or more, and below."""


def doubts(clock: Clock, mfu: Floats, hfu: Floats, row: int) -> tuple[str, ...]:
    """Everything that makes one candidate's time a rough one, in words."""
    return (*_unmeasured(clock, row), *_emulated(clock, row), *_extrapolated(clock, row), *_odd(clock, mfu, hfu, row))


def _unmeasured(clock: Clock, row: int) -> Iterator[str]:
    """A device that only shares its family's constants."""
    index = int(clock.scenario.machine.accelerator_index[row, 0])
    item, constants = clock.scenario.machine.accelerators[index], clock.device_rows[index]
    if item.slug not in constants.measured:
        yield (
            f"no measured step of {item.name}: its time uses the constants of the {constants.name} family, "
            "with a wider band"
        )


def _emulated(clock: Clock, row: int) -> Iterator[str]:
    """A device without units for the request's 16-bit type."""
    item = clock.scenario.machine.accelerators[int(clock.scenario.machine.accelerator_index[row, 0])]
    compute = clock.scenario.recipe.precision.compute
    rate, dtype = dense_rate(item, clock.scenario)
    if rate is not None and dtype == "fp32" and compute not in {"fp32", "tf32"}:
        yield f"{item.name} has no {compute} units: timed, and its MFU counted, at fp32's rate {rate / TERA:g} TFLOP/s"


def _extrapolated(clock: Clock, row: int) -> Iterator[str]:
    """Sizes and types beyond the measured steps of the engine family."""
    engine = clock.engine_rows[int(clock.scenario.layout.cp[row, 0] > 1)]
    said = beyond(engine.reach, clock.scenario, row)
    compute = clock.scenario.recipe.precision.compute
    if compute not in engine.computes:
        said.append(f"{compute} (measured in {', '.join(engine.computes)})")
    if said:
        yield (
            f"step time extrapolated, beyond the {engine.rows} measured steps under {engine.name}: {'; '.join(said)}"
        )


def _odd(clock: Clock, mfu: Floats, hfu: Floats, row: int) -> Iterator[str]:
    """An efficiency that nobody measured."""
    bands = _WHOLE if clock.low_precision is None else _NARROW
    for (name, low, high), values in zip(bands, (mfu, hfu), strict=True):
        share = float(values[row, 0])
        if share < low or share > high:
            yield (
                f"predicted {name} {share:.1%} leaves the measured band of "
                f"{low:.0%} to {high:.0%}: read this step time as a rough one"
            )
            return
