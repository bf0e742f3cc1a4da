"""Starts real PostgreSQL and real Valkey before Django reads its settings.

The settings module is named here and not in the pytest configuration: pytest-django would then load it before
this file runs, and the whole suite would pass on SQLite without a word.
"""

import atexit
import os
import sys
from pathlib import Path

import django
import pytest
from django.conf import settings

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from planner.embedded.discovery import Services, find  # noqa: E402 - needs the path above

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
ON_SQLITE = os.environ.get("TEST_DB") == "sqlite"


def _start_services() -> Services:
    """In the controlling process only: workers inherit the addresses through the environment."""
    services = find(database=not ON_SQLITE)
    os.environ["DATABASE_URL"] = services.database_url or "sqlite://:memory:"
    os.environ["REDIS_URL"] = services.redis_url
    os.environ["TEST_SERVICES"] = services.origin
    os.environ["SECRET_KEY"] = "only for tests: nothing signed with it leaves the run"
    os.environ["ALLOWED_HOSTS"] = "testserver,localhost,127.0.0.1"
    os.environ["STATIC_FILES"] = "finders"
    os.environ["HTTPS_ONLY"] = "false"
    os.environ["DB_POOL"] = "false"
    return services


if settings.configured:
    raise pytest.UsageError(
        "Django was configured before the test services started. Unset DJANGO_SETTINGS_MODULE and run again."
    )
if not WORKER:
    # At exit and not in a pytest hook: a broken import below must not leave servers and folders behind either.
    atexit.register(_start_services().close)
# Two test processes share one server; each keeps to its own keys.
os.environ["REDIS_PREFIX"] = f"planner-test-{WORKER or 'main'}:"
os.environ["DJANGO_SETTINGS_MODULE"] = "planner.settings"
django.setup()
# Test processes started from here inherit the environment: with the name in it pytest-django would configure them
# before this file has given them a prefix of their own.
del os.environ["DJANGO_SETTINGS_MODULE"]


def pytest_report_header() -> str:
    """Say in the header which servers the run uses."""
    return f"services: {os.environ['TEST_SERVICES']}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On SQLite run the tests that touch a database and nothing else: the rest cannot differ."""
    if not ON_SQLITE or config.option.keyword:
        return
    marked = [item for item in items if item.get_closest_marker("django_db")]
    kept = [item for item in marked if not item.get_closest_marker("postgresql")]
    dropped = [item for item in items if item not in kept]
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept
