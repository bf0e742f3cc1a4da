"""Backup, upgrade and rollback as docs/operations.md has them: every plan that was accepted ends, once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.models import NOT_PROVIDED
from psycopg import sql

from planner.embedded.postgres import binaries
from tests.deploy.test_production import TOKEN

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.postgresql]

BEFORE = {"planner": "0004_validations", "hardware": "0001_catalog"}
"""The last migrations of the release before."""
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
BILLED = """
from hardware.models import Offer
print(sorted(Offer.objects.values_list("billing_period_seconds", "billing_minimum_seconds", "billing_source"), key=str))
"""

Manage = Callable[..., str]


@contextmanager
def databases(*kinds: str) -> Iterator[tuple[list[str], Manage]]:
    """(addresses of new databases, manage.py on one of them), dropped at the end."""
    server = os.environ["DATABASE_URL"]
    address, _, query = server.partition("?")
    names = [f"planner_{kind}_{os.getpid()}" for kind in kinds]
    urls = [address.rpartition("/")[0] + f"/{name}" + (f"?{query}" if query else "") for name in names]

    def manage(url: str, *arguments: str) -> str:
        environment = {**os.environ, "DATABASE_URL": url, "PLANNER_NO_BOOTSTRAP": "1", "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout.strip()

    with psycopg.connect(server, autocommit=True) as server_side:
        for name in names:
            server_side.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            yield urls, manage
        finally:
            for name in names:
                server_side.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def fill(url: str, manage: Manage) -> None:
    """A set-up installation with six plans that wait."""
    manage(url, "migrate", "--noinput", "--verbosity=0")
    manage(url, "load_catalog", "--verbosity=0")
    manage(url, "shell", "--verbosity=0", "-c", TOKEN)
    manage(url, "shell", "--verbosity=0", "-c", SUBMIT)


def test_a_restored_dump_finishes_what_was_accepted(tmp_path: Path) -> None:
    with databases("dumped", "restored") as (urls, manage):
        fill(urls[0], manage)
        dump = tmp_path / "planner.dump"
        programs = binaries()
        if not (programs / "pg_dump").exists():
            pytest.skip("this PostgreSQL came without pg_dump")
        subprocess.run([programs / "pg_dump", "--format=custom", f"--file={dump}", urls[0]], check=True)
        subprocess.run([programs / "pg_restore", "--no-owner", f"--dbname={urls[1]}", dump], check=True)
        manage(urls[1], "migrate", "--check")
        assert manage(urls[1], "shell", "--verbosity=0", "-c", FINISH) == "6 6 succeeded"


def test_a_release_goes_back_and_forth_under_waiting_plans() -> None:
    """Back to the tables of the release before, and forward again: nothing that was accepted is lost on the way."""
    with databases("upgraded") as ([url], manage):
        fill(url, manage)
        before = manage(url, "shell", "--verbosity=0", "-c", BILLED)
        for app, name in BEFORE.items():
            manage(url, "migrate", app, name, "--noinput", "--verbosity=0")
        manage(url, "migrate", "--noinput", "--verbosity=0")
        manage(url, "migrate", "--check")
        manage(url, "load_catalog", "--verbosity=0")
        assert manage(url, "shell", "--verbosity=0", "-c", BILLED) == before, "the catalog is whole again"
        assert manage(url, "shell", "--verbosity=0", "-c", FINISH) == "6 6 succeeded"


@pytest.mark.django_db
def test_migrations_since_then_only_add() -> None:
    """The release before serves beside the new tables: what it reads is there, and what it writes is complete.

    A new column that must have a value keeps its default in the database (`db_default`), or the older code's INSERT
    would fail. A release that does otherwise says so in its notes and moves BEFORE.
    """
    loader = MigrationLoader(connection)
    written: list[str] = []
    for app, last in BEFORE.items():
        later = [
            loader.disk_migrations[key] for key in sorted(loader.disk_migrations) if key[0] == app and key[1] > last
        ]
        assert later
        written += loader.collect_sql([(node, False) for node in later])
    taking = re.compile(r"\b(DROP (TABLE|COLUMN|CONSTRAINT)|RENAME|SET NOT NULL|TYPE)\b")
    assert [line for line in written if not line.startswith("--") and taking.search(line)] == []
    old = loader.project_state(list(BEFORE.items())).models
    new = loader.project_state(loader.graph.leaf_nodes()).models
    wanting = [
        (model, name)
        for model, state in old.items()
        for name, field in new[model].fields.items()
        if name not in state.fields and not field.null and field.db_default is NOT_PROVIDED
    ]
    assert wanting == []
