"""The schemas of answers, written out: a field that is renamed by accident shows in the frozen OpenAPI document."""

from __future__ import annotations

from typing import Any

from planner.plans.models import PlanStatus

Schema = dict[str, Any]

INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {"type": "object", "additionalProperties": True}
MOMENT: Schema = {"type": "string", "format": "date-time"}


def maybe(schema: Schema) -> Schema:
    """Null where it is unknown or does not apply."""
    if isinstance(kind := schema.get("type"), str) and set(schema) <= {
        "type",
        "format",
        "minimum",
        "additionalProperties",
    }:
        return {**schema, "type": [kind, "null"]}
    return {"oneOf": [schema, {"type": "null"}]}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def record(**members: Schema) -> Schema:
    """An object that always has these members, and may get more in a later release."""
    return {"type": "object", "properties": members, "required": list(members)}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


MEMORY = record(
    lines=array(
        record(
            bucket=TEXT,
            bytes_by_phase=mapping(INTEGER),
            dtype=maybe(TEXT),
            formula=TEXT,
            divisor=maybe(NUMBER),
            device=FLAG,
            note=maybe(TEXT),
        )
    ),
    by_bucket=mapping(maybe(INTEGER)),
    by_phase=mapping(maybe(INTEGER)),
    moment_by_phase=mapping(maybe(TEXT)),
    peak_phase=maybe(TEXT),
    peak_allocated_bytes=maybe(INTEGER),
    peak_reserved_bytes=maybe(INTEGER),
    device_bytes=maybe(INTEGER),
    device_bytes_band=maybe(array(maybe(INTEGER))),
    evidence=record(range=TEXT, measurements=INTEGER, calibration=maybe(INTEGER), nearest=maybe(ANY), why=maybe(TEXT)),
    capacity_bytes=maybe(INTEGER),
    fits=maybe(FLAG),
    headroom_bytes=maybe(INTEGER),
    host_bytes_per_node=maybe(INTEGER),
    nvme_bytes_per_node=maybe(INTEGER),
    worst_rank=maybe(ANY),
    stages=array(ANY),
    checkpoint_bytes=maybe(record(weights=maybe(INTEGER), full=maybe(INTEGER))),
)
ESTIMATE = record(
    engine_version=TEXT,
    model=record(slug=maybe(TEXT), parameters=maybe(INTEGER), trainable_parameters=maybe(INTEGER)),
    memory=MEMORY,
    time=maybe(ANY),
    communication=maybe(ANY),
    cost=maybe(record(usd_per_hour=maybe(NUMBER), usd_per_million_tokens=maybe(NUMBER), offer=maybe(ANY))),
    assumptions=array(TEXT),
    warnings=array(TEXT),
    advice=array(record(change=TEXT)),
)
OPTION = record(
    rank=INTEGER,
    estimate=ANY,
    hours=maybe(NUMBER),
    usd=maybe(NUMBER),
    usd_per_hour=maybe(NUMBER),
    step_seconds=maybe(NUMBER),
    device_bytes=maybe(INTEGER),
    headroom_bytes=maybe(INTEGER),
    explanation={"description": "why it wins and what binds it"},
    exports={"description": "links to its launch files"},
)
PLAN_HEAD = record(
    id={"type": "string", "format": "uuid"},
    status={"type": "string", "enum": PlanStatus.values},
    progress={"type": "number", "minimum": 0, "maximum": 1},
)
PLAN_SUMMARY = record(
    **PLAN_HEAD["properties"],
    candidates=record(done=INTEGER, total=maybe(INTEGER)),
    model=maybe(TEXT),
    objective=maybe(TEXT),
    created_at=MOMENT,
    started_at=maybe(MOMENT),
    finished_at=maybe(MOMENT),
    url=TEXT,
)
PLAN: Schema = {
    "description": "The first three members always; the answer's once the status is succeeded or infeasible.",
    "type": "object",
    "properties": {
        **PLAN_SUMMARY["properties"],
        "error": record(code=TEXT, detail=TEXT),
        "recommendation": maybe(ref("PlanOption")),
        "options": array(ref("PlanOption")),
        "frontier": array(ANY),
        "rejections": mapping(INTEGER),
        "nearest_misses": array(ANY),
        "search": record(candidates=INTEGER, seconds=NUMBER),
        "provenance": ANY,
    },
    "required": PLAN_HEAD["required"],
}
PROBLEM = record(
    type=TEXT,
    title=TEXT,
    status=INTEGER,
    detail=TEXT,
    errors=array(record(pointer=TEXT, code=TEXT, detail=TEXT)),
)


def page_of(items: Schema) -> Schema:
    return record(results=array(items), next=maybe(TEXT), previous=maybe(TEXT))


COMPONENTS: dict[str, Schema] = {
    "Estimate": ESTIMATE,
    "Maximum": record(maximise=TEXT, value=maybe(INTEGER), estimate=ref("Estimate")),
    "Plan": PLAN,
    "PlanOption": OPTION,
    "PlanSummary": PLAN_SUMMARY,
    "PlanList": page_of(ref("PlanSummary")),
    "Problem": PROBLEM,
}
