"""The database role of docs/operations.md is enough for the service, and no more than it needs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction

from planner.ops.models import AuditEvent
from planner.plans.running import plan_execute
from planner.plans.services import plans_sweep
from tests.people import PLAN, Caller

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.postgresql,
    pytest.mark.usefixtures("quick_search", "rings"),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="roles are PostgreSQL's"),
]

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "operations.md"
ROLE = f"planner_app_{os.getpid()}"


@pytest.fixture
def as_role(db: None) -> Iterator[None]:
    """The documented statements, run as the owner; everything after them as the role. Undone with the test."""
    (statements,) = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    named = statements.replace("planner_app", ROLE).replace("DATABASE planner ", f"DATABASE {database()} ")
    with connection.cursor() as cursor:
        cursor.execute(named)
        cursor.execute(f"SET ROLE {ROLE}")
        yield
        cursor.execute("RESET ROLE")


def database() -> str:
    return f'"{connection.settings_dict["NAME"]}"'


def refused(statement: str) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    except DatabaseError as error:
        return "permission denied" in str(error) or "must be owner" in str(error)
    return False


def test_the_service_works_under_it(caller: Callable[..., Caller], as_role: None) -> None:
    admin = caller("boss", role="admin")
    made = admin.post("/api/v1/plans/", PLAN, Idempotency_Key="k")
    assert made.status_code == 202
    assert plan_execute(plan_id=UUID(made.json()["id"]))
    assert plans_sweep() == 0
    hook = {"slug": "night", "url": "https://hooks.example.org/"}
    assert admin.post("/api/v1/webhooks/", hook).status_code == 201
    assert admin.post("/api/v1/tokens/", {"name": "ci"}).status_code == 201
    assert admin.get("/api/v1/audit/").json()["results"]
    User.objects.get(username="boss").delete()
    assert set(AuditEvent.objects.values_list("user_id", flat=True)) == {None}, "who leaves is taken off the lines"


@pytest.mark.usefixtures("as_role")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE planner_auditevent SET action = 'x'",
        "DELETE FROM planner_auditevent",
        "DROP TABLE planner_planrun",
        "ALTER TABLE planner_planrun ADD COLUMN x int",
        "CREATE TABLE mine (x int)",
        "CREATE ROLE another",
        "COPY planner_team TO PROGRAM 'true'",
    ],
)
def test_it_can_do_nothing_else(statement: str) -> None:
    assert refused(statement)
