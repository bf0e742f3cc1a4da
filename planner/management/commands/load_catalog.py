"""load_catalog: the shipped hardware and models into the database; safe to repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from hardware.columns import CatalogFileError
from hardware.loader import SHIPPED_DATA, catalog_load
from hardware.revision import current_revision
from planner.specs.loader import models_load


class Command(BaseCommand):
    help = "Load the catalog files: adds and updates shipped rows, keeps rows edited here, deletes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--folder", type=Path, default=SHIPPED_DATA, help="hardware files instead of the shipped ones"
        )

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        try:
            with transaction.atomic():
                reports = [*catalog_load(folder), models_load()]
        except (CatalogFileError, OSError) as fault:
            raise CommandError(f"nothing was loaded:\n{fault}") from fault
        for report in reports:
            for line in report.lines():
                self.stdout.write(line)
        self.stdout.write(f"revision {current_revision()}")
