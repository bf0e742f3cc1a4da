"""`manage.py compare`: saved plans or options side by side, or a saved plan against its own run of today."""

from __future__ import annotations

import shutil
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from planner.documents import write_document
from planner.embedded.ready import ensure_ready
from planner.errors import PlannerError
from planner.plans.comparison import MAX_COMPARED, Reference, Side, comparison, reference, sides_of
from planner.plans.running import plan_execute
from planner.plans.services import plan_rerun
from planner.teams.models import Team
from planner.teams.services import team_embedded
from planner.text import render_comparison
from planner.web.choices import accelerator_names

BAD_REQUEST = 2


class Command(BaseCommand):
    help = "Saved plans or options side by side; with --today, a saved plan against today's catalog and prices."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("plans", nargs="+", metavar="PLAN[.RANK]", help="a plan's id, and an option's rank")
        parser.add_argument("--today", action="store_true", help="run the one plan again and show the difference")
        parser.add_argument("--json", action="store_true", help="print the API's answer instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        ensure_ready()
        team = team_embedded()
        asked = [_read(text) for text in options["plans"]]
        several = f"name 2 to {MAX_COMPARED} different plans or options"
        wanted = "--today takes one plan" if options["today"] else several
        if not (len(asked) == 1 if options["today"] else 1 < len(set(asked)) == len(asked) <= MAX_COMPARED):
            raise CommandError(wanted, returncode=BAD_REQUEST)
        try:
            sides = _with_today(team, asked[0]) if options["today"] else sides_of(team, asked)
        except PlannerError as error:
            detail = "\n".join(f"{fault.pointer}: {fault.detail} ({fault.code})" for fault in error.faults)
            raise CommandError(detail or f"{error.detail} ({error.code})", returncode=BAD_REQUEST) from None
        if options["json"]:
            self.stdout.write(write_document(comparison(sides)))
            return
        names = accelerator_names()
        width = shutil.get_terminal_size((100, 24)).columns if self.stdout.isatty() else 100
        self.stdout.write(render_comparison(sides, names, width))


def _read(text: str) -> Reference:
    try:
        return reference(text)
    except ValueError:
        raise CommandError(f"{text[:60]!r} is no plan's id, with .RANK or without", returncode=BAD_REQUEST) from None


def _with_today(team: Team, asked: Reference) -> list[Side]:
    """The saved option, and the best of the same request planned now."""
    sides_of(team, [asked])
    run = plan_rerun(team=team, user=None, plan_id=asked.plan, enqueue=False)
    plan_execute(plan_id=run.pk)
    return sides_of(team, [asked, Reference(run.pk)])
