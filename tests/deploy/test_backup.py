"""A dump taken while plans wait, restored elsewhere: every accepted plan ends there, once (docs/operations.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from planner.embedded.postgres import binaries
from tests.deploy.test_production import TOKEN

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.postgresql]

SUBMIT = """
from planner.plans.services import plan_create
from planner.teams.models import Team
from tests.deploy.test_production import PLAN
for number in range(6):
    plan_create(team=Team.objects.get(slug="night"), user=None, payload={**PLAN, "options": number + 1}, enqueue=False)
"""
FINISH = """
from planner.plans.models import PlanRun
from planner.plans.running import plan_execute
for run in PlanRun.objects.order_by("created_at"):
    plan_execute(plan_id=run.pk)
rows = list(PlanRun.objects.values_list("pk", "status"))
print(len(rows), len({pk for pk, _ in rows}), *{status for _, status in rows})
"""


def test_a_restored_dump_finishes_what_was_accepted(tmp_path: Path) -> None:
    server = os.environ["DATABASE_URL"]
    address, _, query = server.partition("?")
    names = [f"planner_{kind}_{os.getpid()}" for kind in ("dumped", "restored")]
    urls = [address.rpartition("/")[0] + f"/{name}" + (f"?{query}" if query else "") for name in names]

    def manage(url: str, *arguments: str) -> str:
        environment = {**os.environ, "DATABASE_URL": url, "PLANNER_NO_BOOTSTRAP": "1", "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout.strip()

    with psycopg.connect(server, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            manage(urls[0], "migrate", "--noinput", "--verbosity=0")
            manage(urls[0], "load_catalog", "--verbosity=0")
            manage(urls[0], "shell", "--verbosity=0", "-c", TOKEN)
            manage(urls[0], "shell", "--verbosity=0", "-c", SUBMIT)
            dump = tmp_path / "planner.dump"
            programs = binaries()
            if not (programs / "pg_dump").exists():
                pytest.skip("this PostgreSQL came without pg_dump")
            subprocess.run([programs / "pg_dump", "--format=custom", f"--file={dump}", urls[0]], check=True)
            subprocess.run([programs / "pg_restore", "--no-owner", f"--dbname={urls[1]}", dump], check=True)
            manage(urls[1], "migrate", "--check")
            assert manage(urls[1], "shell", "--verbosity=0", "-c", FINISH) == "6 6 succeeded"
        finally:
            for name in names:
                connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
