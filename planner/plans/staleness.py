"""Which saved plans were made from a catalog row as it was: said to whoever edits the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from hardware.signals import catalog_edited
from planner.plans.models import ANSWERED, PlanRun

MEMBERS = (
    ("accelerator", "slug", '"accelerator":"{}"'),
    ("nodetype", "slug", '"node_type":"{}"'),
    ("offer", "instance_name", '"instance":"{}"'),
)
"""Kind of row, its name, and how an answer names it."""


def plans_made_from(rows: Sequence[Any]) -> int:
    """Finished plans whose answer names one of the rows."""
    named = {kind: (attribute, written) for kind, attribute, written in MEMBERS}
    wanted = Q()
    for row in rows:
        found = named.get(row._meta.model_name)
        if found is not None:
            wanted |= Q(answer__contains=found[1].format(getattr(row, found[0])))
    return PlanRun.objects.filter(wanted, status__in=ANSWERED).count() if wanted else 0


def plans_said(rows: Sequence[Any], **_: Any) -> str:
    """The sentence for the editor."""
    count = plans_made_from(rows)
    if not count:
        return "No saved plan used the old value."
    return f"{count:,} saved plan{'' if count == 1 else 's'} used the old value and keep{'s' if count == 1 else ''} it."


def listen() -> None:
    """Answer the catalog's edits; called once the apps are loaded."""
    catalog_edited.connect(plans_said, dispatch_uid="plans_said")
