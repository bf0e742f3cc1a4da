"""Texts of plans: what is stored, compared and answered, byte for byte."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from planner.plans.models import PlanRun


def canonical_text(payload: object) -> str:
    """The one text of a request: members sorted, no spaces; two bodies that mean the same JSON give the same text."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def plan_head(run: PlanRun) -> dict[str, Any]:
    """The members that change while a plan lives, in the contract's order."""
    return {"id": str(run.pk), "status": run.status, "progress": run.progress}


def plan_summary(run: PlanRun) -> dict[str, Any]:
    """A plan as a row of a list."""
    request = json.loads(run.request)
    return {
        **plan_head(run),
        "candidates": {"done": run.candidates_done, "total": run.candidates_total},
        "model": request["model"] if isinstance(request.get("model"), str) else None,
        "objective": request.get("objective"),
        "created_at": _moment(run.created_at),
        "started_at": _moment(run.started_at),
        "finished_at": _moment(run.finished_at),
        "url": f"/api/v1/plans/{run.pk}/",
    }


def plan_text(run: PlanRun) -> str:
    """The whole plan as the API and the command line give it.

    The stored answer is spliced in as it stands, so that its bytes never pass through another writer.
    """
    if run.answer:
        head = json.dumps(plan_head(run), separators=(",", ":"))
        return f"{head[:-1]},{run.answer[1:]}"
    waiting: dict[str, Any] = plan_summary(run)
    if run.error_code:
        waiting["error"] = {"code": run.error_code, "detail": run.error_detail}
    return json.dumps(waiting, separators=(",", ":"), ensure_ascii=False)


def _moment(value: Any) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")
