"""`manage.py estimate --table`: what utilisation divides by, and what nobody measured, stand beside the step."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_the_table_shows_the_peak_and_names_what_is_extrapolated(tmp_path: Path) -> None:
    call_command("load_catalog", verbosity=0)
    file = tmp_path / "request.json"
    request = {
        "model": "llama-3-8b",
        "hardware": {"accelerator": "h100-sxm5-80gb", "count": 16},
        "parallelism": {"tp": 16},
        "batch": {"sequence_length": 8192},
        "recompute": "full",
    }
    file.write_text(json.dumps(request), encoding="utf-8")
    out = StringIO()
    call_command("estimate", str(file), "--table", stdout=out)
    step = next(line for line in out.getvalue().splitlines() if line.startswith("STEP"))
    assert "MFU" in step
    assert "HFU" in step
    assert "of 989 TFLOP/s a GPU" in step
    assert "tp 16 (measured up to 8)" in out.getvalue()
