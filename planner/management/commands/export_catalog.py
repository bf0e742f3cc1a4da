"""export_catalog: the hardware in the database as catalog files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from hardware.loader import catalog_export


class Command(BaseCommand):
    help = "Write accelerators, nodes, interconnects and offers in use as CSV files that load_catalog reads."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        for path in catalog_export(folder):
            self.stdout.write(str(path))
