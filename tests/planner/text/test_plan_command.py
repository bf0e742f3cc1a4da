"""`manage.py plan`: the API's bytes, the people's table, one line per fault, and exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from planner.management.commands.plan import number
from planner.plans.models import PlanRun
from planner.teams.services import team_embedded, token_create
from planner.text.plan import layout
from planner.text.table import WIDTH, Column, ascii_text, table
from tests.people import ANSWER, PLAN, Caller, quiet_client

pytestmark = pytest.mark.django_db

OPTION: dict[str, Any] = {
    "rank": 1,
    "estimate": {
        "hardware": {"accelerator": "h100-sxm5-80gb", "count": 16},
        "parallelism": {"dp_replicate": 1, "dp_shard": 8, "tp": 2, "pp": 1, "cp": 1, "ep": 1},
        "sharding": {"engine": "fsdp2", "zero_stage": 3},
        "precision": "bf16-mixed",
        "optimizer": "adamw",
        "batch": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 64},
        "recompute": "none",
    },
    "hours": 36.24,
    "usd": 1730.4,
    "usd_per_hour": 47.84,
    "step_seconds": 9.1,
    "device_bytes": 73_014_444_032,
    "headroom_bytes": 1,
    "explanation": "cheapest of 388",
    "memory": {"capacity_bytes": 85_520_809_984, "device_bytes": 73_014_444_032,
               "device_bytes_band": [7 * 10**10, 74 * 10**9]},
    "offer": {"provider": "lambda", "region": "us", "pricing": "on-demand"},
}  # fmt: skip


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("plan", *arguments, stdout=out, stderr=err)
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.fixture
def found(quick_search: Any) -> None:
    def answer(problem: object, progress: Any, cancelled: Any) -> dict[str, Any]:
        progress(5, 5)
        return json.loads(json.dumps({**ANSWER, "recommendation": OPTION, "options": [OPTION]}))

    quick_search(answer)


@pytest.mark.usefixtures("found")
def test_json_is_the_apis_answer_to_the_byte(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(PLAN), encoding="utf-8")
    code, out, err = run(str(file), "--json")
    assert (code, err) == (0, "")
    from django.contrib.auth.models import User  # noqa: PLC0415 - the caller of this test alone

    from planner.teams.services import membership_set  # noqa: PLC0415

    user = User.objects.create_user("reader")
    membership_set(team=team_embedded(), user=user, role="viewer")
    _, text = token_create(team=team_embedded(), user=user, name="t")
    stored = PlanRun.objects.get()
    served = Caller(quiet_client(), text).get(f"/api/v1/plans/{stored.pk}/")
    assert out == served.content.decode() + "\n"


@pytest.mark.usefixtures("found")
def test_the_table_for_people() -> None:
    code, out, _ = run("--model", "llama-2-7b", "--tokens", "15e9", "--sequence-length", "4096", "--max-gpus", "16")
    assert code == 0
    assert out.isascii()
    assert max(map(len, out.splitlines()[2:])) <= WIDTH
    lines = out.splitlines()
    assert lines[0].startswith("Fits on 16 x h100-sxm5-80gb: 36.2 hours, $1,730")
    row = next(line for line in lines if line.strip().startswith("1 "))
    assert row.split() == ["1", "16", "x", "h100-sxm5-80gb", "lambda", "fsdp2", "z3", "dp8", "tp2", "1", "x", "8",
                           "none", "68.0/79.6", "36.2", "$1,730"]  # fmt: skip
    assert "memory 3; of 5 in" in out
    assert json.loads(PlanRun.objects.get().request) == {
        "model": "llama-2-7b",
        "workload": {"tokens": 15_000_000_000, "sequence_length": 4096},
        "hardware": {"max_count": 16},
    }


def test_nothing_found_exits_1_and_says_what_was_closest(quick_search: Any) -> None:
    miss = {
        "reason": "memory", "estimate": OPTION["estimate"], "misses_by_bytes": 2**31, "misses_by_hours": None,
        "misses_by_usd": None, "device_bytes": 9 * 10**10, "hours": None, "usd": None, "answer": None,
    }  # fmt: skip
    change = {"change": "recompute full", "memory_bytes": -(2**32), "hours": 40.0, "usd": 900.0, "fits": True}
    infeasible = {**ANSWER, "recommendation": None, "nearest_misses": [miss], "what_if": [change]}
    quick_search(lambda *_: json.loads(json.dumps(infeasible)))
    code, out, _ = run("--model", "llama-2-7b")
    assert code == 1
    assert out.startswith("Does not fit: no way to train llama-2-7b")
    assert "Closest:    16 x h100-sxm5-80gb" in out
    assert "misses memory by 2.0 GiB" in out
    assert "Would work: recompute full: -4.0 GiB, 40.0 h, $900" in out
    assert "Rejected:   memory 3" in out


def test_faults_are_one_a_line_on_stderr_and_exit_2() -> None:
    code, out, err = run("--model", "llama-2-7x", "--objective", "beauty", "--options", "0")
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert all(line.startswith("error: /") and line.endswith(")") for line in lines)
    assert {line.split(": ")[1] for line in lines} == {"/model", "/workload", "/objective", "/options"}


@pytest.mark.parametrize("arguments", [(), ("x.json", "--model", "m"), ("no-such-file.json",)])
def test_a_wrong_call_exits_2(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("plan", *arguments)
    assert caught.value.returncode == 2


@pytest.mark.usefixtures("found")
def test_jsonl_answers_line_by_line_in_order(tmp_path: Path) -> None:
    file = tmp_path / "plans.jsonl"
    file.write_text("\n".join([json.dumps(PLAN), "{", "", json.dumps({}), json.dumps(PLAN)]), encoding="utf-8")
    code, out, _ = run(str(file), "--jsonl")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [answer.get("status") or answer["error"]["status"] for answer in answers] == [
        "succeeded",
        400,
        422,
        "succeeded",
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15e9", 15_000_000_000),
        ("15B", 15_000_000_000),
        ("15_000", 15_000),
        ("1.5T", 1_500_000_000_000),
        ("0.05", 0.05),
    ],
)
def test_numbers_as_people_write_them(text: str, value: float) -> None:
    assert number(text) == value
    assert isinstance(number(text), type(value))


@pytest.mark.parametrize("text", ["", "x", "1e9999", "nan", "inf", "-"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=".*"):
        number(text)


def test_layout_names_degrees_above_one() -> None:
    assert layout(OPTION["estimate"]) == "fsdp2 z3 dp8 tp2"


def test_a_narrow_terminal_keeps_the_essential_columns() -> None:
    columns = (Column("#", right=True, essential=True), Column("LONG"), Column("COST", right=True, essential=True))
    rows = [["1", "x" * 30, "$1"], ["10", "y", "$1,000"]]
    assert table(columns, rows, 100).splitlines()[1] == " 1  " + "x" * 30 + "      $1"
    assert table(columns, rows, 20).splitlines() == [" #    COST", " 1      $1", "10  $1,000"]


def test_typography_becomes_ascii() -> None:
    assert ascii_text("16\u00a0\u00d7\u00a0A \u2212 1 \u2013 \u00e9") == "16 x A - 1 - \\xe9"
