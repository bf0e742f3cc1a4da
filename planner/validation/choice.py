"""Which kind of validation a configuration gets when nobody names one: the cheapest that says most about its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from planner.errors import InvalidRequest
from planner.validation.cases import Case
from planner.validation.kinds import KINDS, Kind

OWNERS = {"measured": "import", "options": "convergence"}
"""Members that only one kind takes: they name it."""


def by_worth() -> list[Kind]:
    """Kinds that can be chosen: those that confirm most first, of equals the cheapest."""
    able = (kind for kind in KINDS.values() if kind.confirms)
    return sorted(able, key=lambda kind: (-kind.confirms, kind.least_cost))


def chosen_case(payload: object, read: Callable[[object], Case]) -> Case:
    """The case of a request: of the kind it names, else of the first that can run it; notes say what was passed over.

    Raises InvalidRequest: where no kind can run it, with the faults of the one that would have said most.
    """
    if not isinstance(payload, Mapping) or "kind" in payload:
        return read(payload)
    owner = next((kind for member, kind in OWNERS.items() if member in payload), None)
    if owner is not None:
        return read({**payload, "kind": owner})
    refusals: list[tuple[Kind, InvalidRequest]] = []
    for kind in by_worth():
        try:
            found = read({**payload, "kind": kind.name})
        except InvalidRequest as error:
            refusals.append((kind, error))
            continue
        notes = [f"not {kind.name}: {error.faults[0].detail}" for kind, error in refusals]
        return replace(found, notes=(*notes, *found.notes))
    raise refusals[0][1]
