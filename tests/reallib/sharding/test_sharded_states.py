"""Per-rank bytes of real engines on a CPU equal ours: every cell exact, or refused with the library's own reason.

CI runs a part of the matrix. The whole of it, in an environment with tests/requirements-reallib.txt:
`REALLIB_EVERYTHING=1 python -m pytest tests/reallib/sharding --noconftest`.
"""

# ruff: noqa: PLC0415 - the libraries are imported where they are known to be installed
from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.reallib.optimizers.modules import MODULES
from tests.reallib.sharding.cells import Cell, predicted
from tests.reallib.sharding.matrix import cells

pytestmark = [pytest.mark.reallib, pytest.mark.filterwarnings("ignore")]
SKIP = "NOT RUN AGAINST THE REAL LIBRARY: {} is not installed; pip install -r tests/requirements-reallib.txt"
EVERYTHING = os.environ.get("REALLIB_EVERYTHING") == "1"
CELLS = {cell.name: cell for cell in cells(everything=EVERYTHING)}
MOST_SECONDS = 3600 if EVERYTHING else 900


def missing(cell: Cell) -> Iterator[str]:
    from accounting.facts.optimizers import OPTIMIZERS

    library = OPTIMIZERS[cell.optimizer].library
    wanted = ["torch", "transformers", MODULES[library].partition(".")[0]]
    wanted += ["deepspeed"] if cell.engine == "deepspeed" else []
    wanted += ["peft"] if cell.lora else []
    return (name for name in wanted if find_spec(name) is None)


@cache
def measured(world: int) -> list[dict[str, Any]]:
    """What each rank of one gloo world found, all cells of that world in one go."""
    chosen = [cell for cell in CELLS.values() if cell.world == world and not any(missing(cell))]
    worker = Path(__file__).with_name("worker.py")
    with TemporaryDirectory() as folder:
        (Path(folder) / "cells.json").write_text(json.dumps([asdict(cell) for cell in chosen]))
        ranks = [
            subprocess.Popen(
                [sys.executable, str(worker), str(rank), str(world), folder],
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for rank in range(world)
        ]
        try:
            said = [rank.communicate(timeout=MOST_SECONDS)[1] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        written = [Path(folder) / f"{rank}.json" for rank in range(world)]
        if not all(path.exists() for path in written):
            pytest.fail("a rank died: " + b"\n".join(said)[-3000:].decode(errors="replace"))
        return [json.loads(path.read_text()) for path in written]


@pytest.mark.parametrize("name", sorted(CELLS))
def test_every_rank_holds_what_we_say(name: str) -> None:
    cell = CELLS[name]
    if absent := list(missing(cell)):
        pytest.skip(SKIP.format(", ".join(absent)))
    found = [rank[name] for rank in measured(cell.world)]
    if cell.refused:
        assert all(isinstance(rank, str) and cell.refused in rank for rank in found), found
        return
    assert [tuple(rank) if isinstance(rank, list) else rank for rank in found] == predicted(cell)
