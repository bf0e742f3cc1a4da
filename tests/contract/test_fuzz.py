"""Generated requests against the API's own document: no 5xx, and every answer as the document says.

The number of examples for each operation is small here; `FUZZ_EXAMPLES=2000` makes it a long run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from knox.crypto import hash_token

from planner.teams.models import ApiToken, Role, Scope, Team
from planner.teams.services import membership_set, token_create
from planner.wsgi import application
from tests.people import Caller

schemathesis = pytest.importorskip("schemathesis", reason="a development tool; .ci/run installs and runs it")
hypothesis = pytest.importorskip("hypothesis")

pytestmark = [pytest.mark.slow, pytest.mark.postgresql, pytest.mark.django_db, pytest.mark.usefixtures("rings")]

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "5"))
STEPS = 20


@pytest.fixture
def token(caller: Callable[..., Caller]) -> Iterator[str]:
    """An admin's; requests share the test's transaction, so the server must not close connections between them."""
    call_command("load_catalog", verbosity=0)
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield caller("boss", role="admin").token
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def wanted() -> list[Any]:
    """What every answer is held to."""
    from schemathesis.specs.openapi import checks as promises  # noqa: PLC0415 - after importorskip

    return [
        schemathesis.checks.not_a_server_error,
        promises.status_code_conformance,
        promises.content_type_conformance,
        promises.response_schema_conformance,
        promises.negative_data_rejection,
    ]


def document() -> Any:
    """The API's own; a body that is too large is refused, whatever else is wrong with it."""
    schema = schemathesis.openapi.from_wsgi("/api/v1/schema/", application)
    refusals = schema.config.checks.negative_data_rejection
    refusals.expected_statuses = [*refusals.expected_statuses, "413"]
    return schema


def test_answers_are_as_the_document_says(token: str, wanted: list[Any]) -> None:
    operations = [found.ok() for found in document().get_all_operations()]
    assert len(operations) > 40
    seen: Counter[str] = Counter()
    faults: list[str] = []
    for operation in operations:
        faults += fuzz(operation, wanted, token, seen)
    assert faults == []
    assert sum(seen.values()) >= len(operations)


def test_what_was_made_is_there_and_what_was_deleted_is_gone(token: str, team: Team, wanted: list[Any]) -> None:
    """Walks from one operation to the next: what an answer names is asked for, changed and deleted.

    A walk may revoke the very token it walks with, or its person's role; the next one gets both anew. Each begins with
    the same rows: what an earlier one left would turn the same choices into another walk, which Hypothesis refuses.
    """
    boss = ApiToken.objects.get(digest=hash_token(token)).user
    from schemathesis.specs.openapi import checks as promises  # noqa: PLC0415 - after importorskip

    held = [*wanted, promises.use_after_free, promises.ensure_resource_availability]
    seen: Counter[str] = Counter()
    machine = document().as_state_machine()

    class Walk(machine):  # type: ignore[misc,valid-type]  # made at run time
        def setup(self) -> None:
            self.begun = transaction.savepoint()
            ApiToken.objects.filter(user=boss).delete()
            membership_set(team=team, user=boss, role=Role.ADMIN)
            self.token = token_create(team=team, user=boss, name="walk", scope=Scope.ADMIN)[1]

        def teardown(self) -> None:
            transaction.savepoint_rollback(self.begun)

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": {"Authorization": f"Bearer {self.token}"}}

        def validate_response(self, response: Any, case: Any, *more: Any, **named: Any) -> None:
            seen[f"{case.operation.method} {response.status_code}"] += 1
            case.validate_response(response, checks=held)

    Walk.run(settings=quick(max_examples=EXAMPLES, stateful_step_count=STEPS))
    assert seen.keys() & {"get 200", "post 201", "patch 200", "delete 204"}, seen
    assert sum(count for name, count in seen.items() if name.endswith(("401", "429"))) < sum(seen.values()) / 2, seen


def fuzz(operation: Any, wanted: list[Any], token: str, seen: Counter[str]) -> list[str]:
    """What one operation answered otherwise than the document says, over right and wrong requests."""
    faults: list[str] = []
    cases = [operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

    @quick(max_examples=EXAMPLES)
    @hypothesis.given(case=hypothesis.strategies.one_of(*cases))
    def ask(case: Any) -> None:
        response = case.call(headers={"Authorization": f"Bearer {token}"})
        seen[f"{response.status_code}"] += 1
        try:
            case.validate_response(response, checks=wanted)
        except (schemathesis.errors.SchemathesisError, AssertionError, BaseExceptionGroup) as error:
            faults.append(f"{operation.method} {operation.path} {response.status_code}: {describe(error)[:600]}")

    ask()
    return faults[:2]


def quick(**more: Any) -> Any:
    """The same requests in every run, and the first fault as it is: shrinking takes longer than finding."""
    return hypothesis.settings(
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
        **more,
    )


def describe(error: BaseException) -> str:
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else [error]
    return " | ".join(" ".join(str(part).split()) for part in parts)
