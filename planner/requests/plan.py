"""A plan request to the search's problem: every default filled in, every name looked up, every fault at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from accounting.catalog import Accelerator, Catalog, NodeType, Offer
from accounting.constraints import STAGES
from accounting.facts.precisions import PRESETS
from accounting.naming import NameLookupError, nearest_names
from accounting.scenario import Offload
from accounting.vocabulary import Attention, Engine, Place, RecomputeMode
from planner.errors import InvalidRequest
from planner.requests.context import RequestContext
from planner.requests.echo import estimate_request
from planner.requests.fields import INVALID, Record, shown
from planner.requests.hardware import read_pool
from planner.requests.models import read_model
from planner.requests.notes import Notes
from planner.requests.optimizers import Chosen, read_optimizer
from planner.requests.plan_tables import CONSTRAINTS, GOODPUT, HARDWARE, PLAN, SEARCH, WORKLOAD
from planner.requests.precisions import read_precision
from planner.requests.recipe import read_adapter, read_offload, read_recompute
from planner.search.problem import Constraints, Goodput, PlanProblem, Pool

REAL_ENGINES = tuple(engine for engine in Engine if engine is not Engine.IDEAL)
GROUPS: Mapping[str, Record] = {
    "workload": WORKLOAD,
    "hardware": HARDWARE,
    "search": SEARCH,
    "constraints": CONSTRAINTS,
    "goodput": GOODPUT,
}
ANY: Mapping[str, tuple[Any, ...]] = {
    "optimizers": ("adamw",),
    "precisions": tuple(PRESETS),
    "engines": REAL_ENGINES,
    "zero_stages": (0, 1, 2, 3),
    "recompute": tuple(RecomputeMode),
    "offload": ("none", "cpu"),
}
"""What an empty list stands for, where it is not simply every row of the catalog."""


def read_plan(payload: object, context: RequestContext) -> PlanProblem:
    """The problem of a plan request. Raises InvalidRequest with every fault."""
    notes = Notes()
    given = PLAN.read(payload, "", notes.faults)
    if given is INVALID:
        raise InvalidRequest(notes.faults.found)
    request = filled(given)
    hardware, search = request["hardware"], request["search"]
    pool = read_pool(hardware["pool"], context, notes)
    _ordered_counts(hardware, notes)
    model_request, model = read_model(given.get("model"), context, notes)
    engines = _each(request, "engines", lambda entry, pointer: Engine(entry))
    stages = tuple(search["zero_stages"])
    _stages_of(engines, stages, notes)
    problem = PlanProblem(
        request=request,
        model=model,
        model_request=model_request,
        tokens=request["workload"]["tokens"],
        sequence_length=request["workload"].get("sequence_length", 1),
        global_batch_tokens=_batch_tokens(request["workload"], notes),
        pool=pool,
        **_places(hardware, pool, context, notes),
        optimizers=_optimizers(request, notes),
        precisions=_each(request, "precisions", lambda entry, pointer: read_precision(entry, pointer, notes)),
        engines=engines,
        zero_stages=stages,
        **_axes(search),
        recomputes=_each(search, "recompute", lambda entry, pointer: read_recompute(entry, f"/search{pointer}", notes)),
        offloads=_each(search, "offload", lambda entry, pointer: _offload(entry, f"/search{pointer}", notes)),
        attention=Attention(request["attention"]),
        adapter=read_adapter(given.get("adapter"), {}, model, notes),
        counts=_axis(hardware["counts"]),
        max_count=hardware["max_count"],
        min_count=hardware["min_count"],
        constraints=Constraints(**request["constraints"]),
        goodput=Goodput(**request["goodput"]),
        objective=request["objective"],
        option_count=request["options"],
        write_request=lambda scenario, row: estimate_request(scenario, row, model_request, context.catalog, pool),
        as_of=datetime.now(tz=UTC).date(),
        evidence=context.evidence,
        assumptions=tuple(notes.assumptions),
        warnings=tuple(notes.warnings),
    )
    if notes.faults.found:
        raise InvalidRequest(notes.faults.found)
    return problem


def _places(hardware: Mapping[str, Any], pool: Pool | None, context: RequestContext, notes: Notes) -> dict[str, Any]:
    """Where the job may run: a pool's own devices, or every device and price that the request leaves."""
    catalog = context.catalog
    accelerators = _accelerators(hardware["accelerators"], catalog, notes)
    if pool is not None:
        accelerators = (pool.accelerator,)
    offers = _offers(hardware, accelerators, catalog, notes)
    if pool is not None:
        offers = ()
    return {
        "accelerators": accelerators,
        "offers": offers,
        "offer_nodes": tuple(catalog.node_of_offer(offer)[0] for offer in offers),
        "node_types": _default_nodes(accelerators, catalog),
    }


def filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """The request with every default in its place, JSON values only; an empty list becomes what it stands for."""
    request: dict[str, Any] = {}
    for name, member in PLAN.members.items():
        group = GROUPS.get(name)
        if group is not None:
            request[name] = _members(group, given.get(name, {}))
        elif name in given or not member.required:
            request[name] = _plain(given.get(name, member.default))
    for name, anything in ANY.items():
        place = request["search"] if name in SEARCH.members else request
        place[name] = place[name] or [str(entry) if not isinstance(entry, int) else entry for entry in anything]
    return request


def _members(group: Record, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _plain(given.get(name, member.default))
        for name, member in group.members.items()
        if name in given or not member.required
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    return value


def _each(place: Mapping[str, Any], name: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    """Every entry read, in order, each kind once."""
    found: list[Any] = []
    for index, entry in enumerate(place[name]):
        value = read(entry, f"/{name}/{index}")
        if value not in found:
            found.append(value)
    return tuple(found)


def _optimizers(request: Mapping[str, Any], notes: Notes) -> tuple[Chosen, ...]:
    return _each(request, "optimizers", lambda entry, pointer: read_optimizer(entry, pointer, notes))


def _axes(search: Mapping[str, Any]) -> dict[str, Any]:
    """What the request leaves of each degree and of the micro-batch."""
    return {name: _axis(search[name]) for name in ("tp", "pp", "vpp", "cp", "ep", "micro_batch_sizes")}


def _axis(given: str | list[int]) -> tuple[int, ...] | None:
    return None if isinstance(given, str) else tuple(sorted(set(given)))


def _offload(entry: str | Mapping[str, Any], pointer: str, notes: Notes) -> Offload:
    if not entry:
        notes.faults.add(pointer, "empty", "an offload that names nothing; say none, or name optimizer or parameters")
    return Offload(optimizer=Place(entry)) if isinstance(entry, str) else read_offload(entry)


def _ordered_counts(hardware: Mapping[str, Any], notes: Notes) -> None:
    low, high = hardware["min_count"], hardware["max_count"]
    if low > high:
        notes.faults.add("/hardware/min_count", "contradiction", f"min_count {low} is above max_count {high}")


def _batch_tokens(workload: Mapping[str, Any], notes: Notes) -> int | None:
    batch, length = workload["global_batch_tokens"], workload.get("sequence_length", 1)
    if batch is not None and batch % length and not notes.faults.touches("/workload"):
        near = f"{batch // length * length} or {(batch // length + 1) * length}" if batch > length else str(length)
        detail = f"{batch} tokens are no whole number of sequences of {length}; nearest: {near}"
        notes.faults.add("/workload/global_batch_tokens", "not_a_multiple", detail)
    return None if batch is None else int(batch)


def _stages_of(engines: tuple[Engine, ...], stages: tuple[int, ...], notes: Notes) -> None:
    """Stages no engine of the request has are a contradiction; that some engine lacks one is only a rejection."""
    if engines and not any(stage in STAGES[engine] for engine in engines for stage in stages):
        listed = ", ".join(f"{engine} {'/'.join(map(str, STAGES[engine]))}" for engine in engines)
        notes.faults.add("/search/zero_stages", "stage_unsupported", f"no engine asked for has these stages: {listed}")


def _accelerators(names: list[str], catalog: Catalog, notes: Notes) -> tuple[Accelerator, ...]:
    """Those named, or all; in catalog order, so that the order of a list changes no answer."""
    found: set[str] = set()
    for index, name in enumerate(names):
        try:
            found.add(catalog.find_accelerator(name).slug)
        except NameLookupError as error:
            notes.faults.add(f"/hardware/accelerators/{index}", f"{error.code}_name", error.detail)
    return tuple(row for slug, row in catalog.accelerators.items() if slug in found or not names)


def _offers(
    hardware: Mapping[str, Any], accelerators: tuple[Accelerator, ...], catalog: Catalog, notes: Notes
) -> tuple[Offer, ...]:
    providers = _known(
        hardware["providers"], {offer.provider for offer in catalog.offers}, "/hardware/providers", notes
    )
    regions = _known(hardware["regions"], {offer.region for offer in catalog.offers}, "/hardware/regions", notes)
    slugs = {row.slug for row in accelerators}
    return tuple(
        offer
        for offer in catalog.offers
        if offer.accelerator in slugs
        and (not providers or offer.provider in providers)
        and (not regions or offer.region in regions)
        and (not hardware["pricing"] or offer.pricing_kind in hardware["pricing"])
    )


def _known(names: list[str], known: set[str], pointer: str, notes: Notes) -> set[str]:
    """The catalog's own spelling of each name; unknown ones are faults."""
    spelling = {name.lower(): name for name in known}
    found = set()
    for index, name in enumerate(names):
        if name.lower() in spelling:
            found.add(spelling[name.lower()])
        else:
            near = ", ".join(nearest_names(name, known, limit=3)) or "none"
            detail = f"the catalog has no offer there: {shown(name)}; nearest: {near}"
            notes.faults.add(f"{pointer}/{index}", "unknown_name", detail)
    return found


def _default_nodes(accelerators: tuple[Accelerator, ...], catalog: Catalog) -> dict[str, NodeType]:
    nodes = {row.slug: catalog.default_node(row) for row in accelerators}
    return {slug: node for slug, node in nodes.items() if node is not None}
