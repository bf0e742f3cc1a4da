"""The servers a run really uses."""

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from planner.embedded.discovery import client


@pytest.mark.postgresql
@pytest.mark.django_db
def test_database_is_postgresql() -> None:
    assert connection.vendor == "postgresql"


def test_broker_answers_and_speaks_lua() -> None:
    with client(settings.REDIS_URL) as broker:
        assert broker.eval("return 40 + 2", 0) == 42


@pytest.mark.django_db
def test_readyz_serves_and_says_that_no_worker_was_heard() -> None:
    response = Client().get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
