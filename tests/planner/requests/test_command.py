"""`manage.py estimate`: one request, many lines, faults, the largest value; and the catalog it reads."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.planner.requests.samples import CONTEXT, LLAMA, MINIMAL, put

INLINE = put(MINIMAL, ("/model", {"config": LLAMA}), ("/hardware", {"accelerator": "h200-sxm-141gb", "count": 8}))


@pytest.fixture(autouse=True)
def _shipped_catalog(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped files instead of a database, but where a test asks for one."""
    if "db" not in request.fixturenames:
        monkeypatch.setattr("planner.management.commands.estimate.context_for", lambda team: CONTEXT)


def run(path: Path, content: str, *flags: str) -> tuple[str, str, int]:
    file = path / "request.json"
    file.write_text(content)
    out, err = StringIO(), StringIO()
    code = 0
    try:
        call_command("estimate", str(file), *flags, stdout=out, stderr=err)
    except SystemExit as stop:
        code = int(stop.code or 0)
    return out.getvalue(), err.getvalue(), code


def test_one_request_gives_one_document(tmp_path: Path) -> None:
    out, err, code = run(tmp_path, json.dumps(put(MINIMAL)))
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["model"]["slug"] == "llama-3-8b"
    assert answer["memory"]["peak_allocated_bytes"] == sum(answer["memory"]["by_bucket"].values())


def test_bad_lines_answer_with_their_problem_and_the_rest_go_on(tmp_path: Path) -> None:
    lines = [json.dumps(INLINE), "not json", json.dumps(put(INLINE, ("/parallelism/tp", 3))), json.dumps(INLINE)]
    out, _, code = run(tmp_path, "\n".join(lines), "--jsonl")
    answers: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [answer.get("error", {}).get("status") for answer in answers] == [None, 400, 422, None]
    assert answers[2]["error"]["errors"][0]["pointer"].startswith("/parallelism")
    assert answers[0] == answers[3]


def test_faults_go_to_stderr_and_the_exit_code_is_two(tmp_path: Path) -> None:
    out, err, code = run(tmp_path, json.dumps(put(INLINE, ("/precision", "nope"), ("/hardware/count", 0))))
    assert (out, code) == ("", 2)
    assert "/precision" in err
    assert "/hardware/count" in err


@pytest.mark.parametrize("name", ["micro_batch_size", "sequence_length"])
def test_the_largest_value_fits_and_the_next_does_not(tmp_path: Path, name: str) -> None:
    answer = json.loads(run(tmp_path, json.dumps(INLINE), "--max", name)[0])
    assert answer["maximise"] == name
    assert answer["estimate"]["memory"]["fits"] is True
    for value, fits in ((answer["value"], True), (answer["value"] + 1, False)):
        again = json.loads(run(tmp_path, json.dumps(put(INLINE, (f"/batch/{name}", value))))[0])
        assert again["memory"]["fits"] is fits


def test_nothing_fits_is_an_answer(tmp_path: Path) -> None:
    small = put(INLINE, ("/hardware", {"accelerator": "t4", "count": 1}))
    assert json.loads(run(tmp_path, json.dumps(small), "--max", "micro_batch_size")[0])["value"] is None


def test_a_table_is_for_people(tmp_path: Path) -> None:
    assert "MEMORY PER GPU" in run(tmp_path, json.dumps(INLINE), "--table")[0]


def test_models_and_hardware_come_from_the_database(tmp_path: Path, db: None) -> None:
    call_command("load_catalog", stdout=StringIO())
    out, err, code = run(tmp_path, json.dumps(put(MINIMAL, ("/model", "Llama-2-7B"))))
    assert (code, err) == (0, "")
    assert json.loads(out)["model"] == {**json.loads(out)["model"], "slug": "llama-2-7b", "parameters": 6_738_415_616}


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("estimate", str(tmp_path / "missing.json"))
