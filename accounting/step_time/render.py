"""A set of constants as the source of its modules, so that a refit is a reviewable change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from textwrap import dedent
from typing import Any

from accounting.facts.calibration import Calibration

_DIGITS = 4
_HEAD = '''"""The shipped constants of {what}. Written by `manage.py calibrate --write`, reviewed by hand."""

from __future__ import annotations

from accounting.facts.calibration_types import {types}

'''


def render_rows(calibration: Calibration) -> Mapping[str, str]:
    """Module name -> its Python source, with every row: `calibration_devices`, `_engines` and `_software`."""
    fabric = "FABRIC_ROW = " + dedent(_row(calibration.fabric)).strip().rstrip(",") + "\n"
    devices = _HEAD.format(what="devices and network", types="DeviceRow, FabricRow")
    engines = _HEAD.format(what="engines", types="EngineRow")
    software = _HEAD.format(what="kernels and dtypes", types="KernelRow, LowPrecisionRow")
    return {
        "calibration_devices": devices
        + f"VERSION = {_value(calibration.version)}\n"
        + _table("DEVICE_ROWS", calibration.devices)
        + fabric,
        "calibration_engines": engines + _table("ENGINE_ROWS", calibration.engines),
        "calibration_software": software
        + _table("KERNEL_ROWS", calibration.kernels)
        + _table("LOW_PRECISION_ROWS", calibration.low_precision),
    }


def _table(name: str, rows: Mapping[str, Any]) -> str:
    return f"{name} = (\n" + "".join(_row(row) for row in rows.values()) + ")\n"


def _row(row: Any) -> str:
    said = [item for item in fields(row) if getattr(row, item.name) != item.default]
    lines = [f"        {item.name}={_value(getattr(row, item.name))},\n" for item in said]
    return f"    {type(row).__name__}(\n{''.join(lines)}    ),\n"


def _value(value: Any) -> str:
    """Floats with four significant digits, double-quoted strings, everything else as Python writes it."""
    if isinstance(value, float):
        return repr(float(f"{value:.{_DIGITS}g}"))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return "(\n" + "".join(f"            {_value(item)},\n" for item in value) + "        )"
    if isinstance(value, tuple):
        return "(" + ", ".join(_value(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    return repr(value)
