"""write_validation: docs/validation.md with its figures anew, from the truth that lies beside the tests."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Write docs/validation.md: predicted beside measured and published, by source. Needs a checkout with tests."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            truth = import_module("tests.truth.page")
            runs = import_module("tests.truth.runs")
        except ModuleNotFoundError as error:
            raise CommandError(f"the tests are not installed here, and the truth lies beside them: {error}") from error
        truth.write(list(runs.predicted(runs.published())))
        self.stdout.write(str(truth.PAGE))
