"""Candidates: the recipes a request allows, and for each the columns of every layout on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accounting.constraints import STAGES
from accounting.facts.precisions import Precision
from accounting.machine import Choice, Tables, engine_runs_on, machine_columns
from accounting.options import Options
from accounting.scenario import Layout, Machine, Recipe, Scenario, column
from accounting.units import Bytes
from accounting.vocabulary import Engine, Schedule
from planner.search.machines import MachineChoice, counts
from planner.search.problem import PlanProblem

POWERS = (1, 2, 4, 8, 16, 32, 64)
TENSOR_PARALLEL_ENGINES = (Engine.FSDP2, Engine.MEGATRON, Engine.IDEAL)
PIPELINE_ENGINES = (Engine.MEGATRON, Engine.IDEAL)
LONG_SEQUENCE = 32_768
"""From here on the search also splits the sequence where the request leaves that open."""
LARGEST_AUTOMATIC_MICRO_BATCH = 32
FSDP = (Engine.FSDP1, Engine.FSDP2)


@dataclass(frozen=True, slots=True)
class Block:
    """All candidates of one recipe: a scenario of N rows and which machine each row runs on."""

    recipe: Recipe
    scenario: Scenario
    machine: NDArray[np.int64]
    """Index into the machine choices, (N,)."""
    unbalanced: NDArray[np.bool_]
    """Rows whose global batch does not divide into micro-batches, (N,)."""
    layouts: Scenario
    """Each different layout once, M rows: memory and rules depend on nothing else of a machine than its generation."""
    layout_row: NDArray[np.int64]
    """Which of them each row is, (N,)."""


def recipes(problem: PlanProblem) -> Iterator[Recipe]:
    """Every allowed combination of engine, stage, precision, optimizer, recomputation and offload, in a fixed order."""
    for engine in problem.engines:
        for stage in (stage for stage in problem.zero_stages if stage in STAGES[engine]):
            for precision in (row for row in problem.precisions if engine_holds(engine, row)):
                for optimizer, options in problem.optimizers:
                    for recompute in problem.recomputes:
                        for offload in problem.offloads:
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
                                schedule=Schedule.ONE_F_ONE_B,
                                headroom=problem.constraints.memory_headroom,
                                options=problem.options,
                            )


def engine_holds(engine: Engine, precision: Precision) -> bool:
    """Megatron keeps 16-bit weights beside its master copy: it has no autocast over fp32 weights to offer."""
    return not (engine is Engine.MEGATRON and precision.parameters == "fp32" and precision.compute != "fp32")


def block_of(problem: PlanProblem, recipe: Recipe, machines: tuple[MachineChoice, ...]) -> Block | None:
    """All layouts of one recipe as columns; None where no machine can run its engine at any count."""
    pairs = [
        (index, count)
        for index, choice in enumerate(machines)
        if engine_runs_on(recipe.engine, choice.accelerator)
        for count in counts(problem, choice)
    ]
    if not pairs:
        return None
    axes = [np.arange(len(pairs)), *(np.asarray(axis) for axis in _axes(problem, recipe, machines))]
    grid = [axis.reshape(-1) for axis in np.meshgrid(*axes, indexing="ij")]
    pair, replicas = np.asarray(pairs, dtype=np.int64)[grid[0]], grid[1]
    machine, count = pair[:, 0], pair[:, 1]
    tp, pp, cp, ep, micro = (axis.astype(np.int64) for axis in grid[2:])
    data = count // (tp * pp * cp)
    whole = (data * tp * pp * cp == count) & (data > 0)
    devices = np.array([choice.node_type.accelerator_count if choice.node_type else 1 for choice in machines])[machine]
    nodes = np.maximum(count // np.maximum(devices, 1), 1)
    hybrid = (replicas == 1) & (nodes > 1) & (data % nodes == 0) & (data > nodes)
    kept = np.flatnonzero(whole & ((replicas == 0) | hybrid) & (tp <= np.maximum(devices, 1)))
    # By depth of pipeline, so that a chunk's stage axis is no longer than it must be.
    kept = kept[np.argsort(pp[kept], kind="stable")]
    columns = {"machine": machine, "count": count, "tp": tp, "pp": pp, "cp": cp, "ep": ep, "micro": micro}
    columns |= {"data": data, "hybrid": hybrid, "nodes": nodes}
    rows = {name: values[kept] for name, values in columns.items()}
    layout, unbalanced = _layout(problem, recipe, rows)
    devices_of = _machine(machines, rows["machine"], layout.count, recipe.precision.compute)
    scenario = Scenario(recipe=recipe, layout=layout, machine=devices_of)
    first, layout_row = _distinct(machines, rows)
    return Block(recipe, scenario, rows["machine"], unbalanced, scenario.take(first), layout_row)


def _distinct(
    machines: tuple[MachineChoice, ...], rows: dict[str, NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(first row of each different layout, which of them every row is), in order of first appearance."""
    generations = sorted({choice.accelerator.compute_capability or "" for choice in machines})
    generation = np.array([generations.index(choice.accelerator.compute_capability or "") for choice in machines])
    parts = [generation[rows["machine"]], *(rows[name] for name in ("count", "tp", "pp", "cp", "ep", "micro", "hybrid", "nodes"))]
    code = np.zeros(rows["machine"].shape, dtype=np.int64)
    for part in parts:
        code = code * (int(part.max(initial=0)) + 1) + part.astype(np.int64)
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[inverse]


def _axes(problem: PlanProblem, recipe: Recipe, machines: tuple[MachineChoice, ...]) -> list[tuple[int, ...]]:
    """(hybrid sharding, tp, pp, cp, ep, micro-batch): what the request gives, else what the engine can use."""
    engine = recipe.engine
    moe = problem.model.architecture.moe if problem.model.architecture else None
    widest = max((choice.node_type.accelerator_count for choice in machines if choice.node_type), default=1)
    tensor = tuple(power for power in POWERS if power <= min(widest, 8)) if engine in TENSOR_PARALLEL_ENGINES else (1,)
    pipeline = POWERS[:5] if engine in PIPELINE_ENGINES else (1,)
    context = POWERS[:4] if problem.sequence_length >= LONG_SEQUENCE and engine in TENSOR_PARALLEL_ENGINES else (1,)
    expert = (1,)
    if moe is not None and engine is Engine.MEGATRON:
        expert = tuple(power for power in POWERS if moe.experts % power == 0)
    micro = tuple(power for power in POWERS if power <= LARGEST_AUTOMATIC_MICRO_BATCH)
    hybrid = (0, 1) if engine in FSDP else (0,)
    if problem.model.architecture is None:
        pipeline, context, micro = (1,), (1,), (1,)
    given = (problem.tp, problem.pp, problem.cp, problem.ep, problem.micro_batch_sizes)
    return [hybrid, *(mine or auto for mine, auto in zip(given, (tensor, pipeline, context, expert, micro), strict=True))]


def _layout(problem: PlanProblem, recipe: Recipe, rows: dict[str, NDArray[np.int64]]) -> tuple[Layout, NDArray[np.bool_]]:
    data, micro = rows["data"], rows["micro"]
    if problem.global_batch_tokens is None:
        micro_batches, unbalanced = np.ones_like(data), np.zeros(data.shape, dtype=np.bool_)
    else:
        sequences = problem.global_batch_tokens // problem.sequence_length
        micro_batches = np.maximum(sequences // (data * micro), 1)
        unbalanced = micro_batches * data * micro != sequences
    unsharded = recipe.zero_stage == 0 and recipe.engine not in FSDP
    replicate = data if unsharded else np.where(rows["hybrid"], rows["nodes"], 1)
    layout = Layout(
        count=column(rows["count"]),
        dp_replicate=column(replicate),
        dp_shard=column(data // replicate),
        tp=column(rows["tp"]),
        cp=column(rows["cp"]),
        pp=column(rows["pp"]),
        vpp=column(np.ones_like(data)),
        ep=column(rows["ep"]),
        etp=column(np.where(rows["ep"] > 1, 1, rows["tp"])),
        sequence_parallel=column(rows["tp"] > 1, np.bool_),
        sequence_length=column(np.full_like(data, problem.sequence_length)),
        micro_batch_size=column(micro),
        micro_batches=column(micro_batches),
    )
    return layout, unbalanced


def _machine(machines: tuple[MachineChoice, ...], index: NDArray[np.int64], count: Bytes, compute: str) -> Machine:
    rows = column(index)
    tables = Tables(
        accelerators=tuple(choice.accelerator for choice in machines),
        node_types=tuple(choice.node_type for choice in machines),
        offers=tuple(choice.offer for choice in machines),
    )
    return machine_columns(tables, Choice(accelerator=rows, node_type=rows, offer=rows, count=count), compute)


def with_options(problem: PlanProblem, **changes: object) -> PlanProblem:
    """The same problem with some model options changed."""
    values = {name: getattr(problem.options, name) for name in Options.__dataclass_fields__}
    return replace(problem, options=Options(**(values | changes)))
