"""What a plan without an answer says: how far it is, or why it ended."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone

from hardware.revision import current_revision
from planner.plans.models import PlanRun, PlanStatus
from planner.web.format import count, duration

LONG_SECONDS = 30


@dataclass(frozen=True)
class Waiting:
    """The progress line, and whether the reader may as well leave the page."""

    text: str
    done: int
    total: int | None
    long: bool
    ended: str


def waiting_of(run: PlanRun) -> Waiting:
    """Read a plan's state."""
    total = run.candidates_total
    if run.status == PlanStatus.QUEUED:
        text = "Waiting for a worker."
    elif total is None:
        text = "Counting candidates."
    else:
        text = f"{count(run.candidates_done)} of {count(total)} candidates"
    ended = ""
    if run.finished_at is not None:
        ended = f"finished in {duration((run.finished_at - (run.started_at or run.created_at)).total_seconds())}"
    long = (timezone.now() - run.created_at).total_seconds() > LONG_SECONDS
    return Waiting(text, run.candidates_done, total, long, ended)


def newer_revision(run: PlanRun) -> int | None:
    """The catalog's revision where it moved on since the plan was made; None where it did not."""
    revision = current_revision()
    return revision if revision_moved(run, revision) else None


def revision_moved(run: PlanRun, revision: int) -> bool:
    """Whether the catalog moved on since a plan was made."""
    return run.catalog_revision.isdecimal() and revision > int(run.catalog_revision)
