"""`manage.py plan --export RANK FORMAT`: the launch file itself on stdout, faults with exit code 2."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from planner.search import search
from tests.planner.requests.samples import CONTEXT
from tests.planner.search.problems import problem_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def planned(quick_search: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds what a real small search finds."""
    answer = search(problem_of(), lambda done, total: None, lambda: False)
    quick_search(lambda problem, progress, cancelled: answer)
    monkeypatch.setattr("planner.plans.exports.context_for", lambda team: CONTEXT)


def run(*arguments: str) -> tuple[Any, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as stopped:
        call_command("plan", "--model", "llama-3-8b", "--export", *arguments, stdout=out, stderr=err)
    return stopped.value.code, out.getvalue(), err.getvalue()


def test_the_file_is_printed_and_nothing_else(planned: None) -> None:
    code, out, err = run("1", "slurm")
    assert (code, err) == (0, "")
    assert out.startswith("#!/usr/bin/env bash\n")
    assert out.endswith("\n")


def test_an_unknown_format_is_a_bad_request(planned: None) -> None:
    code, out, err = run("1", "terraform")
    assert (code, out) == (2, "")
    assert "slurm" in err


def test_a_rank_is_a_number(planned: None) -> None:
    with pytest.raises(CommandError, match="rank first"):
        call_command("plan", "--model", "llama-3-8b", "--export", "slurm", "1")
