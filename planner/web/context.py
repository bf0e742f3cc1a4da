"""What each page shows, as plain data: the templates only place it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django.http import QueryDict

from planner.requests.plan_tables import CONSTRAINTS, HARDWARE
from planner.web import format as text
from planner.web import words
from planner.web.calculator_link import calculator_query
from planner.web.charts.scatter import Reading, Scatter, scatter
from planner.web.explained import EstimateView, NodeSizes, estimate_view
from planner.web.ledger import Fact
from planner.web.options import Explain, marked, options_table
from planner.web.run import run_facts
from planner.web.summary import (
    Change,
    Miss,
    Reason,
    Stat,
    TurnedDown,
    change_of,
    device_count,
    miss_of,
    provenance_of,
    reasons_against,
    reasons_of,
    stats_of,
    turned_down,
    way_out_of,
)
from planner.web.tables import Table
from planner.web.verdict import Verdict, machine, no_plan_verdict, option_verdict
from planner.web.words import Json

Link = Callable[[int], str]
_FEW_CARDS = 3
CAPTION = "GiB per GPU, as nvidia-smi counts. US dollars."


@dataclass(frozen=True)
class PlanPage:
    """Everything of a finished plan, or of one of its options."""

    title: str
    verdict: Verdict
    stats: tuple[Stat, ...] = ()
    why: tuple[Reason, ...] = ()
    why_not: tuple[Reason, ...] = ()
    estimate: EstimateView | None = None
    scatter: Scatter | None = None
    options: Table | None = None
    changes: tuple[Change, ...] = ()
    turned_down: tuple[TurnedDown, ...] = ()
    turned_down_total: str = ""
    misses: tuple[Miss, ...] = ()
    provenance: tuple[Fact, ...] = ()
    run: tuple[Fact, ...] = ()
    """What becomes of the step over the whole job."""
    rank: int | None = None
    calculator: str | None = None
    """Query of the calculator page for this option; None where its form cannot hold the whole request."""
    closest: str = ""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def way_out(self) -> Change | None:
        """The first change that planning again can make."""
        return next((change for change in self.changes if change.plannable), None)


@dataclass(frozen=True)
class Reader:
    """What the pages need from outside the answer: names of GPUs, links to options, the wanted order."""

    names: Mapping[str, str]
    option_link: Link
    explain_link: Explain = lambda rank, subject: ""
    asked: QueryDict = field(default_factory=QueryDict)
    """The address's query: order and columns of the options."""
    node_sizes: Mapping[str, NodeSizes] = field(default_factory=dict)
    """Host memory and NVMe of each node type, bytes."""

    def node_of(self, estimate: Json) -> NodeSizes:
        """Of the node an estimate names."""
        return self.node_sizes.get(str((estimate.get("hardware") or {}).get("node_type")), (None, None))


def plan_page(request: Json, answer: Json, reader: Reader) -> PlanPage:
    """A finished plan: its recommendation, or why there is none."""
    best = answer.get("recommendation")
    if best is None:
        return _infeasible(request, answer, reader)
    return option_page(request, answer, reader, best, best.get("answer"))


def option_page(request: Json, answer: Json, reader: Reader, option: Json, explained: Json | None) -> PlanPage:
    """One option of a plan with its whole estimate answer, where there is one."""
    constraints = request.get("constraints") or {}
    kept_free = kept_free_of(request)
    estimate = option.get("estimate") or {}
    on = machine(estimate, reader.names)
    rows, total = turned_down(answer)
    order = words.OBJECTIVES.get(str(request.get("objective") or "cost"), "cost")
    links = (reader.option_link, reader.explain_link)
    options = options_table(answer.get("options") or (), reader.names, links, reader.asked)
    return PlanPage(
        title=words.plan_title(request),
        verdict=option_verdict(option, on, words.method(estimate), kept_free),
        stats=stats_of(option, explained or {}, request),
        why=tuple(
            Reason(str(place), str(line)) for place, line in enumerate(reasons_of(answer.get("why"), option), start=1)
        ),
        why_not=tuple(reasons_against(answer.get("why_not") or ())),
        estimate=None
        if not explained
        else estimate_view("memory", explained, kept_free, device_count(estimate), reader.node_of(estimate)),
        scatter=_scatter(answer, constraints, reader, option.get("rank")),
        options=marked(options, option.get("rank"), f"Ranked by {order}. {CAPTION}"),
        changes=tuple(change_of(row, _best(answer)) for row in answer.get("what_if") or ()),
        provenance=provenance_of(answer),
        run=run_facts(option),
        rank=option.get("rank"),
        calculator=calculator_query(estimate),
        assumptions=_together("assumptions", answer, explained),
        warnings=_together("warnings", answer, explained),
        turned_down=rows,
        turned_down_total=total,
    )


def _best(answer: Json) -> Json:
    """The estimate request that what-if rows change."""
    estimate: Json = (answer.get("recommendation") or {}).get("estimate") or {}
    return estimate


def _infeasible(request: Json, answer: Json, reader: Reader) -> PlanPage:
    nearest = list(answer.get("nearest_misses") or ())
    hardware = request.get("hardware") or {}
    on = _asked_for(hardware, reader.names)
    model = words.model_title(request.get("model"))
    closest = nearest[0] if nearest else None
    explained = (closest or {}).get("answer")
    kept_free = kept_free_of(request)
    rows, total = turned_down(answer)
    return PlanPage(
        title=words.plan_title(request),
        verdict=no_plan_verdict(model, on, answer),
        estimate=estimate_view("closest", explained, kept_free, device_count((closest or {}).get("estimate") or {}))
        if explained
        else None,
        changes=tuple(way_out_of(row, reader.names, place) for place, row in enumerate(answer.get("what_if") or ())),
        misses=tuple(miss_of(row, reader.names) for row in nearest),
        closest="" if closest is None else miss_of(closest, reader.names).name,
        provenance=provenance_of(answer),
        turned_down=rows,
        turned_down_total=total,
        assumptions=_together("assumptions", answer, explained),
        warnings=_together("warnings", answer, explained),
    )


def _together(member: str, answer: Json, explained: Json | None) -> tuple[str, ...]:
    """Lines of the plan and of the estimate it shows, each once."""
    return tuple(dict.fromkeys(map(str, [*(answer.get(member) or ()), *((explained or {}).get(member) or ())])))


def _asked_for(hardware: Json, names: Mapping[str, str]) -> str:
    """'up to 64 × A100 SXM4 40 GB'; a long list is only counted."""
    cards = [names.get(slug, slug) for slug in hardware.get("accelerators") or ()]
    on = " or ".join(cards) if 0 < len(cards) <= _FEW_CARDS else "any GPU of the catalog"
    if len(cards) > _FEW_CARDS:
        on = f"any of the {len(cards)} GPUs asked for"
    most = hardware.get("max_count") or HARDWARE.members["max_count"].default
    return f"up to {most:,}{text.NBSP}\u00d7{text.NBSP}{on}"


def kept_free_of(request: Json) -> float:
    """The fraction of the card a plan keeps free; the contract's default where the request does not say."""
    given = (request.get("constraints") or {}).get("memory_headroom", CONSTRAINTS.members["memory_headroom"].default)
    return float(given or 0.0)


def _scatter(answer: Json, constraints: Json, reader: Reader, rank: int | None) -> Scatter | None:
    return scatter(
        answer.get("points") or (),
        Reading(
            names=reader.names,
            links={row["rank"]: reader.option_link(row["rank"]) for row in answer.get("options") or ()},
            deadline_hours=constraints.get("deadline_hours"),
            budget_usd=constraints.get("budget_usd"),
            chosen_rank=rank or 1,
        ),
    )
