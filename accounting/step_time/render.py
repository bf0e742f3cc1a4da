"""A set of constants as the source of its module, so that a refit is a reviewable change."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from accounting.facts.calibration import Calibration

_DIGITS = 4
_HEAD = '''"""The shipped constants, one row a family. Written by `manage.py calibrate --write`, reviewed by hand."""

from __future__ import annotations

from accounting.facts.calibration_types import DeviceRow, EngineRow, FabricRow, KernelRow, LowPrecisionRow

'''


def render_rows(calibration: Calibration) -> str:
    """Python source of `accounting/facts/calibration_rows.py` with every row of the set."""
    tables = (
        ("DEVICE_ROWS", calibration.devices),
        ("ENGINE_ROWS", calibration.engines),
        ("KERNEL_ROWS", calibration.kernels),
        ("LOW_PRECISION_ROWS", calibration.low_precision),
    )
    parts = [_HEAD]
    for name, rows in tables:
        parts.append(f"{name} = (\n" + "".join(_row(row) for row in rows.values()) + ")\n")
    parts.append("FABRIC_ROW = " + _row(calibration.fabric).strip().rstrip(",") + "\n")
    return "".join(parts)


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
    if isinstance(value, tuple):
        return "(" + ", ".join(_value(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    return repr(value)
