"""The recipes a request allows, in a fixed order, and why some of them are no recipe at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from accounting.constraints import STAGES
from accounting.facts.precisions import PRESETS, Precision
from accounting.facts.refusals import refusal_of
from accounting.options import Options
from accounting.scenario import Recipe
from accounting.vocabulary import Engine, Place, Schedule
from planner.search.problem import PlanProblem

NVME_ENGINES = (Engine.DEEPSPEED, Engine.IDEAL)
QUANTISED_BASES = frozenset({"nf4", "int8", "gptq-int4"})
MEGATRON_FORM = {"bf16-mixed": "bf16-master-fp32grad", "fp16-mixed": "fp16-master"}
WHOLE_SHARDING = 3
"""ZeRO stage at which parameters are sharded too."""


def recipes(problem: PlanProblem) -> Iterator[Recipe]:
    """Every combination of engine, stage, precision, optimizer, recompute, offload and schedule, in a fixed order."""
    for engine in problem.engines:
        for stage in problem.zero_stages:
            for precision in precisions(problem, engine):
                for optimizer, options in problem.optimizers:
                    for recompute in problem.recomputes:
                        for offload in problem.offloads:
                            for schedule in schedules(problem, engine, stage):
                                yield Recipe(
                                    model=problem.model,
                                    engine=engine,
                                    zero_stage=stage,
                                    precision=precision,
                                    optimizer=optimizer,
                                    optimizer_options=options,
                                    recompute=recompute,
                                    attention=problem.attention,
                                    offload=offload,
                                    adapter=problem.adapter,
                                    schedule=schedule,
                                    headroom=problem.constraints.memory_headroom,
                                    options=options_of(problem, engine),
                                    evidence=problem.evidence,
                                )


def options_of(problem: PlanProblem, engine: Engine) -> Options:
    """The options asked for. A plan launches Megatron-LM itself, so its fused norms are named unless the request does:
    without them an estimate prices the other code bases that share the engine's name."""
    if engine is Engine.MEGATRON and problem.options.fused_norm is None:
        return replace(problem.options, fused_norm=True)
    return problem.options


def precisions(problem: PlanProblem, engine: Engine) -> tuple[Precision, ...]:
    """The precisions asked for, each once, in the engine's own form: autocast's sixteen bits are Megatron's own ones.

    Both compute in 16 bits and step on fp32 weights; Megatron keeps the 16-bit ones too. Source: Megatron-LM,
    float16_module and the mixed-precision optimizer.
    """
    if engine is not Engine.MEGATRON:
        return problem.precisions
    own = (PRESETS[MEGATRON_FORM.get(one.name, one.name)] if one.name in PRESETS else one for one in problem.precisions)
    return tuple(dict.fromkeys(own))


def substituted(problem: PlanProblem) -> list[str]:
    """What stands for a precision under an engine that does not have it, in words."""
    if Engine.MEGATRON not in problem.engines:
        return []
    names = [one.name for one in problem.precisions if one.name in MEGATRON_FORM]
    return [f"precision: under Megatron {name} is {MEGATRON_FORM[name]}, its own form of it" for name in names]


def schedules(problem: PlanProblem, engine: Engine, stage: int) -> tuple[Schedule, ...]:
    """1F1B, and interleaved where the engine has virtual stages and the request leaves pipelines open."""
    deep = problem.pp is None or max(problem.pp) > 1
    if pipelines(engine, stage) and deep and problem.model.architecture is not None:
        return (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED)
    return (Schedule.ONE_F_ONE_B,)


def pipelines(engine: Engine, stage: int) -> bool:
    """Whether an engine has a pipeline at a stage: DeepSpeed's is no part of the search, Megatron's FSDP has none."""
    return engine is Engine.IDEAL or (engine is Engine.MEGATRON and stage <= 1)


def _no_autocast(recipe: Recipe) -> bool:
    """Megatron keeps 16-bit weights beside its master copy: it has no autocast over fp32 weights to offer."""
    precision = recipe.precision
    return recipe.engine is Engine.MEGATRON and precision.parameters == "fp32" != precision.compute


def _no_quantised_base(recipe: Recipe) -> bool:
    """DeepSpeed's ZeRO-3 does not shard a quantised base."""
    if recipe.adapter is None or recipe.adapter.base_dtype not in QUANTISED_BASES:
        return False
    return recipe.engine is Engine.DEEPSPEED and recipe.zero_stage == WHOLE_SHARDING


def _no_adapter(recipe: Recipe) -> bool:
    """Megatron's own pretraining trains all weights: no launch file of it has an adapter, so no plan proposes one."""
    return recipe.adapter is not None and recipe.engine is Engine.MEGATRON


def _no_pure_replica(recipe: Recipe) -> bool:
    """Without ZeRO DeepSpeed steps on fp32 weights only: 16-bit ones without a master copy it has from stage 1 on.

    Source: its configuration check of bf16_master_weights_and_grads, release 0.19.
    """
    return recipe.engine is Engine.DEEPSPEED and recipe.zero_stage == 0 and recipe.precision.stepped != "fp32"


def _steps_other_dtypes(recipe: Recipe) -> bool:
    accepted = recipe.optimizer.parameter_dtypes
    return bool(accepted) and recipe.precision.stepped not in accepted


REFUSALS: tuple[tuple[str, Callable[[Recipe], bool]], ...] = (
    ("engine_unsupported", lambda recipe: recipe.zero_stage not in STAGES[recipe.engine]),
    ("engine_unsupported", _no_autocast),
    ("engine_unsupported", _no_adapter),
    ("engine_unsupported", _no_quantised_base),
    ("engine_unsupported", _no_pure_replica),
    (
        "engine_unsupported",
        lambda recipe: (
            Place.NVME in (recipe.offload.optimizer, recipe.offload.parameters) and recipe.engine not in NVME_ENGINES
        ),
    ),
    (
        "engine_unsupported",
        lambda recipe: (
            recipe.offload.parameters is not Place.NONE
            and recipe.engine is Engine.DEEPSPEED
            and recipe.zero_stage < WHOLE_SHARDING
        ),
    ),
    ("optimizer_unsupported", _steps_other_dtypes),
    ("optimizer_unsupported", lambda recipe: refusal_of(recipe.engine, recipe.optimizer.name) is not None),
)
"""(reason, predicate): the rules between members of a recipe. An estimate request of one is refused as well, or warned
where its bytes mean something though no launch would start (no autocast, an optimizer that stops under the engine)."""


def refusal(recipe: Recipe) -> str | None:
    """The reason under which every candidate of a recipe is counted as rejected; None where it can run."""
    return next((reason for reason, broken in REFUSALS if broken(recipe)), None)
