"""From a validation request to what is run and what is predicted for exactly that: a work order and a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from accounting.facts.precisions import Precision
from accounting.implementation import HUGGING_FACE_ENGINES
from accounting.scenario import Scenario
from accounting.vocabulary import Engine, Place, RecomputeMode
from planner.errors import Fault, InvalidRequest
from planner.requests import RequestContext, read_estimate
from planner.requests.fields import INVALID, Anything, Faults, Member, Record, Word
from planner.validation.configs import NoConfig, config_of
from planner.validation.imports import read_measured
from planner.validation.kinds import KINDS, MAX_TENSORS, Kind
from planner.validation.reduce import reduced

REQUEST = Record(
    {
        "kind": Member(
            Word(tuple(KINDS)), help="what is measured, and how; left out: the cheapest kind that confirms most"
        ),
        "request": Member(Anything(), required=True, help="an estimate request"),
        "measured": Member(Anything(), help="only for import: numbers measured elsewhere"),
        "options": Member(Anything(), help="only for convergence: steps, seeds, learning_rate"),
    }
)
WHOLE_BELOW = 20_000_000
"""Parameters up to which the CPU run takes the model itself."""
CPU_SEQUENCE = 16
TRAINED_UNDER = ("ddp", "fsdp1", "fsdp2")
"""Engines that a convergence check on several ranks can take."""
RUNNABLE = ("fp32", "bf16", "fp16")
ZERO_OPTIONS = (
    "stage3_param_persistence_threshold",
    "sub_group_size",
    "reduce_bucket_size",
    "contiguous_gradients",
    "grad_accum_dtype",
)
"""DeepSpeed's own, by its names."""
PER_KIND = "/request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    kind: Kind
    request: Mapping[str, Any]
    """The estimate request that was measured: reduced where the kind reduces."""
    scenario: Scenario
    job: Mapping[str, Any] = field(default_factory=dict)
    """What the measuring process is told; empty where none runs."""
    measured: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    """What was made smaller, in words."""


def read_case(payload: object, context: RequestContext, config_for: Callable[[str], Any]) -> Case:
    """The case of a validation request of a named kind; `config_for` gives a stored model's config.json or None.

    Raises InvalidRequest with every fault, before anything is built.
    """
    faults = Faults()
    given = REQUEST.read(payload, "", faults)
    if given is INVALID or faults.found:
        raise InvalidRequest(faults.found)
    kind = KINDS[given["kind"]]
    try:
        scenario = read_estimate(given["request"], context)
    except InvalidRequest as error:
        raise InvalidRequest(_under(PER_KIND, error.faults)) from None
    for name, owner in (("measured", "import"), ("options", "convergence")):
        if name in given and kind.name != owner:
            faults.add(f"/{name}", "not_here", f"`{name}` belongs to kind {owner}; this is {kind.name}")
    if kind.name == "import":
        measured = read_measured(given.get("measured"), faults)
        _stop(faults)
        return Case(kind=kind, request=given["request"], scenario=scenario, measured=measured)
    _judge(kind, scenario, faults)
    _stop(faults)
    return _BUILDERS[kind.name](Asked(kind, given, scenario, context, config_for))


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was read and found runnable."""

    kind: Kind
    given: Mapping[str, Any]
    scenario: Scenario
    context: RequestContext
    config_for: Callable[[str], Any]

    def config(self) -> dict[str, Any]:
        """The config.json to build. Raises InvalidRequest."""
        model = self.given["request"]["model"]
        given = model.get("config") if isinstance(model, dict) else self.config_for(model)
        try:
            return config_of(self.scenario.recipe.model, given)
        except NoConfig as fault:
            raise InvalidRequest([Fault("/request/model", "config_required", str(fault))]) from None


def _under(pointer: str, faults: tuple[Fault, ...]) -> list[Fault]:
    return [Fault(f"{pointer}{fault.pointer}", fault.code, fault.detail) for fault in faults]


def _stop(faults: Faults) -> None:
    if faults.found:
        raise InvalidRequest(faults.found)


def _judge(kind: Kind, scenario: Scenario, faults: Faults) -> None:
    """What this kind cannot run, each at its own place."""
    recipe, layout = scenario.recipe, scenario.layout
    engine = recipe.engine.value
    if kind.engines and engine not in kind.engines:
        detail = f"{kind.name} runs {', '.join(kind.engines)}; {engine} is not run here"
        faults.add("/request/sharding/engine", "engine_unsupported", detail)
    if kind.engines:
        _judge_step(scenario, faults)
    degrees = ("pp", "cp") if kind.tensor_parallel else ("pp", "cp", "tp")
    if kind.engines and kind.most_ranks is None:
        for name in degrees:
            if int(getattr(layout, name)[0, 0]) > 1:
                detail = f"{kind.name} runs no {name}; it takes data{' and tensor' * kind.tensor_parallel} parallelism"
                faults.add(f"/request/parallelism/{name}", "not_run_here", detail)
    held = recipe.inventory.all_tensors()
    if sum(tensor.count * times for tensor, times in held) > MAX_TENSORS:
        detail = f"the model has more than {MAX_TENSORS:,} parameter tensors, each of which would be built"
        faults.add("/request/model", "too_large_to_build", detail)


def _judge_step(scenario: Scenario, faults: Faults) -> None:
    recipe = scenario.recipe
    precision, deepspeed = recipe.precision, recipe.engine is Engine.DEEPSPEED
    if (precision.master_weights is not None) is not deepspeed or precision.compute not in RUNNABLE:
        others = "bf16-master or fp16-master" if deepspeed else "fp32, bf16-mixed or bf16-pure"
        detail = f"{precision.name} is not run here under {recipe.engine.value}: take {others}, or an import"
        faults.add("/request/precision", "not_run_here", detail)
    if recipe.recompute.mode is RecomputeMode.SELECTIVE:
        faults.add("/request/recompute", "not_run_here", "selective recomputation is not run here: take none or full")
    if recipe.adapter is not None:
        faults.add("/request/adapter", "not_run_here", "adapters are not run here: take null")
    offload = recipe.offload
    if any(place is not Place.NONE for place in (offload.optimizer, offload.parameters, offload.activations)):
        faults.add("/request/offload", "not_run_here", "offloading is not run here: take none")


def _shapes(asked: Asked) -> Case:
    job = {"model": {"config": asked.config()}}
    return Case(kind=asked.kind, request=asked.given["request"], scenario=asked.scenario, job=job)


def _cpu(asked: Asked) -> Case:
    """At most four ranks of data parallelism on the model itself or its small relative."""
    recipe, layout = asked.scenario.recipe, asked.scenario.layout
    notes = []
    model = asked.given["request"]["model"]
    if isinstance(model, dict) and "tensors" in model:
        described = model
        if recipe.model.parameters > WHOLE_BELOW:
            detail = f"a list of tensors is run as it is: at most {WHOLE_BELOW:,} parameters, this has more"
            raise InvalidRequest([Fault("/request/model/tensors", "too_large_to_build", detail)])
    else:
        config = asked.config()
        if recipe.model.parameters > WHOLE_BELOW:
            config = reduced(config)
            notes.append("the model was reduced to two narrow blocks of the same family")
        described = {"config": config}
    most = asked.kind.most_ranks or 1
    degrees = {name: int(getattr(layout, name)[0, 0]) for name in ("dp_replicate", "dp_shard")}
    world = min(most, degrees["dp_replicate"] * degrees["dp_shard"])
    replicate = world if degrees["dp_shard"] == 1 else min(degrees["dp_replicate"], world // 2 or 1)
    if recipe.engine is Engine.DEEPSPEED and world > 1 and recipe.zero_stage:
        replicate = 1
    if world < int(layout.count[0, 0]):
        notes.append(f"{world} ranks of data parallelism stand for the planned {int(layout.count[0, 0]):,}")
    micro_batches = min(2, int(layout.micro_batches[0, 0]))
    changes = {
        "model": described,
        "hardware": {**asked.given["request"]["hardware"], "count": world},
        "parallelism": {"dp_replicate": replicate, "dp_shard": world // replicate},
        "batch": _batch(described, 1, CPU_SEQUENCE, world * micro_batches),
    }
    return _measured_case(asked, changes, notes)


def _batch(described: Mapping[str, Any], micro: int, sequence: int, sequences: int) -> dict[str, int]:
    batch = {"micro_batch_size": micro, "global_batch_size": sequences}
    return batch if "tensors" in described else batch | {"sequence_length": sequence}


def _dry(asked: Asked) -> Case:
    changes: dict[str, Any] = {"model": {"config": asked.config()}}
    notes = []
    if int(asked.scenario.layout.tp[0, 0]) > 1:
        changes["options"] = {**asked.given["request"].get("options", {}), "foreach": False}
        notes.append("the optimizer steps tensor by tensor: whole and split tensors do not mix in one kernel")
    return _measured_case(asked, changes, notes)


def _gpu(asked: Asked) -> Case:
    """One rank: real steps of the model on one device, as many micro-batches as the plan has."""
    layout = asked.scenario.layout
    micro_batches = int(layout.micro_batches[0, 0])
    micro, sequence = int(layout.micro_batch_size[0, 0]), int(layout.sequence_length[0, 0])
    described = {"config": asked.config()}
    changes = {
        "model": described,
        "hardware": {**asked.given["request"]["hardware"], "count": 1},
        "parallelism": {},
        "sharding": {"engine": "ddp", "zero_stage": 0},
        "batch": _batch(described, micro, sequence, micro * micro_batches),
    }
    notes = ["one rank stands for the plan: its micro-batch on a device of its own"] * (int(layout.count[0, 0]) > 1)
    return _measured_case(asked, changes, notes)


def _convergence(asked: Asked) -> Case:
    from planner.validation.convergence import read_options  # noqa: PLC0415 - knows this module's Case

    options = read_options(asked.given.get("options", {}))
    engine = asked.scenario.recipe.engine.value
    if options["ranks"] > 1 and engine not in TRAINED_UNDER:
        detail = f"several ranks train under {', '.join(TRAINED_UNDER)}; {engine} does not: take ranks 1"
        raise InvalidRequest([Fault("/options/ranks", "engine_unsupported", detail)])
    job = {**job_of(asked.scenario, {}), **options}
    return Case(kind=asked.kind, request=asked.given["request"], scenario=asked.scenario, job=job)


def _measured_case(asked: Asked, changes: Mapping[str, Any], notes: list[str]) -> Case:
    """The request with its changes, read again: the prediction is for what is run. Raises InvalidRequest."""
    request = {**asked.given["request"], **changes}
    try:
        scenario = read_estimate(request, asked.context)
    except InvalidRequest as error:
        raise InvalidRequest(_under(PER_KIND, error.faults)) from None
    job = job_of(scenario, request["model"])
    return Case(kind=asked.kind, request=request, scenario=scenario, job=job, notes=tuple(notes))


def job_of(scenario: Scenario, described: Mapping[str, Any]) -> dict[str, Any]:
    """The work order of a scenario: plain values only."""
    recipe, layout = scenario.recipe, scenario.layout
    options = recipe.options
    numbers = {name: int(getattr(layout, name)[0, 0]) for name in ("dp_replicate", "dp_shard", "tp", "count")}
    batch = {
        name: int(getattr(layout, name)[0, 0]) for name in ("micro_batch_size", "sequence_length", "micro_batches")
    }
    engine = recipe.engine.value
    autocast = engine == "ddp" and recipe.precision.compute != recipe.precision.parameters
    outputs = "dropped" if recipe.engine not in HUGGING_FACE_ENGINES else "fp32" if autocast else "kept"
    given = dict(recipe.optimizer_options)
    switches = {name: value for name in ("foreach", "fused") if (value := getattr(options, name)) is not None}
    known = {option.name for option in recipe.optimizer.options}
    return {
        "model": dict(described),
        "world": numbers["count"],
        "degrees": numbers,
        "engine": engine,
        "zero_stage": recipe.zero_stage,
        "sequence_parallel": bool(layout.sequence_parallel[0, 0]),
        "precision": _precision(recipe.precision),
        "autocast": autocast,
        "outputs": outputs,
        "optimizer": {
            "name": recipe.optimizer.name,
            "options": given | {name: value for name, value in switches.items() if name in known},
        },
        "batch": batch,
        "recompute": recipe.recompute.mode.value,
        "attention": "eager" if recipe.attention.value == "eager" else "sdpa",
        "gradient_as_bucket_view": options.gradient_as_bucket_view,
        "use_orig_params": options.use_orig_params,
        "reshard_after_forward": recipe.zero_stage == 3  # noqa: PLR2004 - the stage that shards parameters
        if options.reshard_after_forward is None
        else options.reshard_after_forward,
        "no_sync": options.no_sync,
        "zero": {name: getattr(options, name) for name in ZERO_OPTIONS},
    }


def _precision(precision: Precision) -> dict[str, str | None]:
    names = ("compute", "parameters", "gradients", "master_weights", "reduce")
    return {name: getattr(precision, name) for name in names}


_BUILDERS: Mapping[str, Callable[[Asked], Case]] = {
    "shapes": _shapes,
    "cpu": _cpu,
    "dry-run": _dry,
    "gpu": _gpu,
    "convergence": _convergence,
}
