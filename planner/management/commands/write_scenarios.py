"""write_scenarios: docs/scenarios.md anew, from the shipped catalog."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from planner.plans.scenario_page import PAGE, page


class Command(BaseCommand):
    help = "Write docs/scenarios.md: ten plans of the shipped catalog with what to make of them. Takes a minute."

    def handle(self, *args: Any, **options: Any) -> None:
        PAGE.write_text(page(), encoding="utf-8")
        self.stdout.write(str(PAGE))
