"""`manage.py test`: the whole suite on real PostgreSQL and real Valkey, then the database tests again on SQLite."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

ROOT = Path(__file__).resolve().parents[3]
# Left in place, they would make pytest configure Django before the test services run, or run them on a live database.
SECRETS = ("DATABASE_URL", "REDIS_URL", "CACHE_URL", "SECRET_KEY")
DROPPED = {"DJANGO_SETTINGS_MODULE", *SECRETS, *(f"{name}_FILE" for name in SECRETS)}


class Command(BaseCommand):
    """Hands its arguments to pytest; without any it makes both passes."""

    help = "Run the tests: on PostgreSQL and Valkey, then on SQLite. Arguments go to pytest."
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Skip Django's own parsing, which would reject pytest's arguments."""
        arguments = argv[2:]
        code = self.passes(arguments)
        sys.exit(code)

    def handle(self, *args: Any, **options: Any) -> None:
        """The way in for `call_command`."""
        sys.exit(self.passes(list(args)))

    def passes(self, arguments: list[str]) -> int:
        """Run pytest once with `arguments`, or twice without; the first failing exit status wins."""
        if arguments:
            return self.pytest(arguments, {})
        self.stdout.write("[1/2] PostgreSQL and Valkey", ending="\n")
        self.stdout.flush()
        first = self.pytest(["-q", "-n", "2", "-m", "not slow"], {})
        if first != 0:
            return first
        self.stdout.write("[2/2] SQLite: the tests that use a database")
        self.stdout.flush()
        return self.pytest(["-q", "-n", "2", "-m", "not slow"], {"TEST_DB": "sqlite"})

    def pytest(self, arguments: list[str], extra: dict[str, str]) -> int:
        """pytest in a process of its own, with an environment that names no live service."""
        environment = {name: value for name, value in os.environ.items() if name not in DROPPED} | extra
        return subprocess.run(
            [sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=environment, check=False
        ).returncode
