"""`manage.py calibrate`: refits tell how they go, write versions beside what stands, and name every fault first."""

from __future__ import annotations

import json
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounting.estimate import estimate
from accounting.facts.calibration import CALIBRATION
from planner.requests import context_for, read_estimate
from planner.teams.models import Team
from planner.validation.learning import measured_steps
from planner.validation.measured_rows import PUBLISHED, read_measured_rows
from tests.planner.validation.test_calibration import imported


@pytest.fixture
def catalog(db: None) -> None:
    call_command("load_catalog", verbosity=0)


STEP: dict[str, Any] = {
    "id": "mine",
    "source": "ours",
    "part": "fit",
    "request": {
        "model": "llama-3-8b",
        "hardware": {"accelerator": "h100-sxm5-80gb", "count": 8},
        "batch": {"sequence_length": 8192},
    },
    "expect": {"step_seconds": 1.0},
}


def steps_file(tmp_path: Path) -> Path:
    """Eight steps of two sources, 1.3 times as slow as predicted, six to fit on and two to judge."""
    rows: list[dict[str, Any]] = []
    context = context_for(None)
    for number in range(8):
        request = {**STEP["request"], "batch": {"sequence_length": 1024 * (1 + number)}}
        seconds = 1.3 * float(estimate(read_estimate(request, context)).timing.step_seconds[0, 0])
        rows.append({
            "id": number,
            "source": ("ours", "theirs")[number % 2],
            "part": "report" if number > 5 else "fit",
            "request": request,
            "expect": {"step_seconds": seconds},
        })  # fmt: skip
    file = tmp_path / "steps.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return file


@pytest.mark.django_db
@pytest.mark.usefixtures("catalog")
def test_a_refit_tells_how_it_goes_and_writes_a_version_beside_what_stands(tmp_path: Path, team: Team) -> None:
    file, sets = steps_file(tmp_path), tmp_path / "sets"
    sets.mkdir()
    for number in range(4):
        imported(team, number, 1.2)
    out, told = StringIO(), StringIO()
    asked = [str(file), "--stored", "--iterations", "1", "--leave-out", "--write", str(sets)]
    call_command("calibrate", *asked, stdout=out, stderr=told)
    for heard in ("4 steps of stored validations", "refitting", "iteration 1", "without ours", "without theirs (2 of"):
        assert heard in told.getvalue()
    (first,) = sets.iterdir()
    assert sorted(item.name for item in first.iterdir()) == [
        "calibration_devices.py",
        "calibration_engines.py",
        "calibration_software.py",
        "scores.txt",
    ]
    text = (first / "calibration_devices.py").read_text()
    assert f'VERSION = "{first.name}"' in text
    said = out.getvalue()
    for shown in ("devices hopper", "gemm_efficiency", "null model", "in force", CALIBRATION.version, str(first)):
        assert shown in said
    assert (first / "scores.txt").read_text().strip() in said
    space: dict[str, Any] = {}
    exec(compile(text, "devices", "exec"), space)  # noqa: S102 - our own text
    found = {row.name: row for row in space["DEVICE_ROWS"]}
    assert found["hopper"].gemm_efficiency < CALIBRATION.devices["hopper"].gemm_efficiency
    assert found["hopper-large"].gemm_efficiency == found["hopper"].gemm_efficiency
    assert found["ampere"] == CALIBRATION.devices["ampere"]
    # What stands is never overwritten: the next set has the next name.
    call_command("calibrate", str(file), "--iterations", "0", "--write", str(sets), stdout=StringIO())
    assert len(list(sets.iterdir())) == 2
    assert (first / "calibration_devices.py").read_text() == text


@pytest.mark.django_db
@pytest.mark.usefixtures("catalog")
def test_stored_steps_stand_beside_the_published_ones(team: Team) -> None:
    for number in range(12):
        imported(team, number, 1.2)
    steps = measured_steps()
    assert len(steps) == 12
    assert {row["part"] for row in steps} == {"fit", "report"}
    out = StringIO()
    call_command("calibrate", "--stored", "--iterations", "0", stdout=out, stderr=StringIO())
    assert "stored validations" in out.getvalue()
    assert "llm-foundry" in out.getvalue()


def test_without_a_file_the_published_steps_are_read() -> None:
    rows = read_measured_rows(PUBLISHED)
    parts = Counter(row["part"] for row in rows)
    assert parts == {"fit": 881, "report": 591}
    assert sum(row.rows for row in CALIBRATION.devices.values()) == parts["fit"]


def test_a_document_of_constants_that_are_thrown_away_is_refused(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("no block")
    said = said_by(tmp_path, [STEP], "--document", str(document))
    assert "no block 'terms'" in said
    assert "add --write" in said
    assert "add --leave-out" in said


def said_by(tmp_path: Path, lines: list[Any], *options: str) -> str:
    """What the command refuses a file for."""
    file = tmp_path / "steps.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    with pytest.raises(CommandError) as refused:
        call_command("calibrate", str(file), *options, stdout=StringIO())
    return str(refused.value)


def test_every_fault_of_measured_steps_is_named_before_anything_runs(tmp_path: Path) -> None:
    bad = [
        "no json",
        [],
        STEP | {"part": "train"},
        STEP | {"expect": {"step_seconds": 0}},
        STEP | {"expect": {"step_seconds": True}, "source": ""},
        {name: value for name, value in STEP.items() if name not in ("request", "expect")},
        STEP,
    ]
    said = said_by(tmp_path, bad, "--iterations", "-1", "--write", str(tmp_path / "none"), "--document", "none")
    assert [line.split(":")[0].split(" is ")[0] for line in said.splitlines()] == [
        "--iterations",
        f"--write {tmp_path / 'none'}",
        "--document none",
        "--document shows every source left out of the fit as well",
        "line 1",
        *(f"line {number}" for number in (2, 3, 4, 5, 5, 6, 6)),
    ]


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "binary", tmp_path, tmp_path / "absent"):
        with pytest.raises(CommandError, match="cannot be read"):
            call_command("calibrate", str(path), stdout=StringIO())


@pytest.mark.django_db
@pytest.mark.usefixtures("catalog")
def test_requests_that_no_longer_read_are_all_named(tmp_path: Path) -> None:
    lost = [STEP | {"id": name, "request": {**STEP["request"], "model": "llama-99"}} for name in ("one", "two")]
    said = said_by(tmp_path, [*lost, STEP])
    assert [line.split(":")[0] for line in said.splitlines()] == ["one", "two"]
    assert "no row has the part fit" in said_by(tmp_path, [STEP | {"part": "report"}])
    assert "no measured step" in said_by(tmp_path, [], "--iterations", "0")
