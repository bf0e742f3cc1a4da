"""One explained estimate for a page, and a request as people copy it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from planner.documents import write_document
from planner.errors import Fault, InvalidRequest
from planner.requests import context_for, read_estimate
from planner.requests.together import TOGETHER
from planner.teams.models import Team
from planner.web import format as text
from planner.web.explained import EstimateView, estimate_view
from planner.web.form import Form, bind, payload_from
from planner.web.form_rows import ESTIMATE_ROWS
from planner.web.format import memory
from planner.web.ledger import Fact, outside_the_card
from planner.web.verdict import Verdict, estimate_verdict, machine
from planner.web.words import Json


@dataclass(frozen=True)
class Copies:
    """A request as JSON, and as the command that sends it."""

    json: str
    curl: str


def answer_of(request: object, team: Team) -> dict[str, Any]:
    """The estimate answer of a request, exactly as the API gives it."""
    row = TOGETHER.answer(read_estimate(request, context_for(team)))
    answer: dict[str, Any] = json.loads(write_document(row))
    return answer


def copies(request: Json, root: str, path: str = "api/v1/plans/") -> Copies:
    """A request of the contract in two forms; the token is left for the reader to fill in."""
    body = json.dumps(request, ensure_ascii=False)
    lines = [f"curl {root}{path}", '-H "Authorization: Bearer $SHARDPLAN_TOKEN"', "-H 'Content-Type: application/json'"]
    return Copies(
        json.dumps(request, indent=2, ensure_ascii=False), " \\\n  ".join([*lines, f"-d {shlex.quote(body)}"])
    )


@dataclass(frozen=True)
class Advice:
    """A change and the memory it saves."""

    change: str
    saves: str


@dataclass(frozen=True)
class CalculatorPage:
    """The form, and the answer where the form has one."""

    form: Form
    verdict: Verdict | None = None
    view: EstimateView | None = None
    advice: tuple[Advice, ...] = ()
    also: tuple[Fact, ...] = ()
    copy: Copies | None = None


def calculator_page(posted: QueryDict, team: Team, lists: Any, names: Any, root: str) -> CalculatorPage:
    """Read the address, answer it; faults stand at their fields."""
    if "accelerator" not in posted:
        return CalculatorPage(bind(None, ESTIMATE_ROWS, lists))
    posted = filled(posted)
    payload, unread = payload_from(posted, ESTIMATE_ROWS)
    try:
        answer = answer_of(payload, team)
    except InvalidRequest as error:
        return CalculatorPage(bind(posted, ESTIMATE_ROWS, lists, together(unread, error.faults)))
    if unread:
        return CalculatorPage(bind(posted, ESTIMATE_ROWS, lists, unread))
    kept_free = float(payload.get("headroom") or 0.0)
    count = int(payload["hardware"].get("count") or 1)
    return CalculatorPage(
        form=bind(posted, ESTIMATE_ROWS, lists),
        verdict=estimate_verdict(answer["memory"], machine(payload, names), kept_free),
        view=estimate_view("memory", answer, kept_free, count),
        advice=tuple(
            Advice(str(row["change"]), memory(row["saves_bytes"]))
            for row in answer.get("advice") or ()
            if row["saves_bytes"] > 0
        ),
        also=_also(answer, count),
        copy=copies(payload, root, "api/v1/estimates/"),
    )


def filled(posted: QueryDict) -> QueryDict:
    """An address that leaves fields out means what the empty form shows for them."""
    whole = posted.copy()
    for row in ESTIMATE_ROWS:
        if row.name not in whole and isinstance(row.start, str):
            whole[row.name] = row.start
    return whole


def together(unread: list[Fault], faults: tuple[Fault, ...]) -> list[Fault]:
    """Faults of both readers; a member that could not be read at all keeps only the first one's words."""
    known = {fault.pointer for fault in unread}
    others = [fault for fault in faults if not any(f"{fault.pointer}/".startswith(f"{at}/") for at in known)]
    return unread + others


def _also(answer: Json, count: int) -> tuple[Fact, ...]:
    """Host memory, checkpoints, speed and price: what else a configuration means."""
    spent, cost = answer.get("time") or {}, answer.get("cost") or {}
    speed = spent.get("tokens_per_second")
    return (
        *outside_the_card(answer["memory"]),
        Fact("Step", text.duration(spent.get("step_seconds")), subject="step" if spent.get("step_seconds") else ""),
        Fact(f"Tokens/s, all {count:,} GPUs", text.NOT_KNOWN if speed is None else text.significant(speed)),
        Fact("MFU", text.fraction(spent.get("mfu")), subject="mfu" if spent.get("mfu") else ""),
        Fact(
            "Cost per hour, all GPUs",
            text.money_rate(cost.get("usd_per_hour")),
            subject="rate" if cost.get("usd_per_hour") else "",
        ),
        Fact("Cost per million tokens", text.money_fine(cost.get("usd_per_million_tokens"))),
    )
