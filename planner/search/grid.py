"""The layouts of one recipe, decoded from a running number in slices, so that no space is ever held whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from accounting.scenario import Layout, Recipe, column
from accounting.standing import Standing
from accounting.vocabulary import Engine, Schedule
from planner.search.problem import PlanProblem
from planner.search.recipes import pipelines
from planner.search.sites import Sites, Whole

POWERS = (1, 2, 4, 8, 16, 32, 64)
TENSOR_PARALLEL_ENGINES = (Engine.FSDP2, Engine.MEGATRON, Engine.IDEAL)
LONG_SEQUENCE = 32_768
"""From here on the search also splits the sequence where the request leaves that open."""
LARGEST_AUTOMATIC_MICRO_BATCH = 32
LARGEST_AUTOMATIC_TENSOR_DEGREE = 8
LARGEST_AUTOMATIC_STAGES = 16
VIRTUAL_STAGES = (2, 4, 8)
FSDP = (Engine.FSDP1, Engine.FSDP2)
SLICE = 65_536
"""Combinations decoded at a time."""
CELLS = 24_576
"""Rows · stages evaluated at a time: a third of the cells that overflow the cache, and few calls all the same."""
BATCH_CELLS = 8 * CELLS
"""Rows · stages of one batch of layouts, of which many only differ in their micro-batch."""


@dataclass(frozen=True, slots=True)
class Layouts:
    """Layouts of one recipe on their sites, R rows, and what was left behind on the way to them."""

    layout: Layout
    site: Whole
    unbalanced: NDArray[np.bool_]
    """Rows whose global batch does not divide into micro-batches, (R,)."""
    rejected: Counter[str]
    """Candidates that never became a layout, by reason."""
    visited: int
    """Combinations times machines that were decoded for this batch; every one of a recipe over all its batches."""
    standing: dict[int, tuple[Whole, Standing]] = field(default_factory=dict)
    """Kind of recipe -> (rows, what stands in their memory), for the recipes that differ in recomputation alone."""


@dataclass(frozen=True, slots=True)
class Axes:
    """What a recipe's layouts differ in, in the order of decoding: the deepest pipelines come last."""

    pp: tuple[int, ...]
    vpp: tuple[int, ...]
    sites: int
    hybrid: tuple[int, ...]
    tp: tuple[int, ...]
    cp: tuple[int, ...]
    ep: tuple[int, ...]
    micro: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        lengths = (self.hybrid, self.tp, self.cp, self.ep, self.micro)
        return (len(self.pp), len(self.vpp), self.sites, *map(len, lengths))

    @property
    def size(self) -> int:
        """Combinations in all."""
        return prod(self.shape)

    def decode(self, flat: Whole) -> dict[str, Whole]:
        """The values behind running numbers, by axis; `site` as an index."""
        index = np.unravel_index(flat, self.shape)
        named = zip(("pp", "vpp", "site", "hybrid", "tp", "cp", "ep", "micro"), index, strict=True)
        tables = {"pp": self.pp, "vpp": self.vpp, "hybrid": self.hybrid, "tp": self.tp}
        tables |= {"cp": self.cp, "ep": self.ep, "micro": self.micro}
        return {
            name: np.asarray(tables[name], dtype=np.int64)[at] if name in tables else at.astype(np.int64)
            for name, at in named
        }


def axes_of(problem: PlanProblem, recipe: Recipe, sites: Sites) -> Axes:
    """What the request gives, else what the engine can use on these sites."""
    engine = recipe.engine
    architecture = problem.model.architecture
    moe = architecture.moe if architecture else None
    widest = min(int(sites.domain.max(initial=1)), LARGEST_AUTOMATIC_TENSOR_DEGREE)
    tensor = tuple(power for power in POWERS if power <= widest) if engine in TENSOR_PARALLEL_ENGINES else (1,)
    deep = pipelines(engine, recipe.zero_stage) and architecture is not None
    deepest = LARGEST_AUTOMATIC_STAGES if deep else 1
    pipeline = tuple(power for power in POWERS if power <= deepest)
    long = problem.sequence_length >= LONG_SEQUENCE and engine in TENSOR_PARALLEL_ENGINES and architecture is not None
    context = POWERS[:4] if long else (1,)
    expert: tuple[int, ...] = (1,)
    if moe is not None and engine is Engine.MEGATRON:
        expert = tuple(power for power in POWERS if moe.experts % power == 0)
    micro = tuple(power for power in POWERS if power <= LARGEST_AUTOMATIC_MICRO_BATCH) if architecture else (1,)
    pp = problem.pp or pipeline
    return Axes(
        pp=tuple(stages for stages in pp if stages > 1) if recipe.schedule is Schedule.INTERLEAVED else pp,
        vpp=_virtual(problem, recipe),
        sites=len(sites.count),
        hybrid=(0, 1) if engine in FSDP else (0,),
        tp=problem.tp or tensor,
        cp=problem.cp or context,
        ep=problem.ep or expert,
        micro=problem.micro_batch_sizes or micro,
    )


def _virtual(problem: PlanProblem, recipe: Recipe) -> tuple[int, ...]:
    """Chunks of a stage: one, or what an interleaved schedule may have."""
    if recipe.schedule is not Schedule.INTERLEAVED:
        return (1,)
    return VIRTUAL_STAGES if problem.vpp is None else tuple(chunks for chunks in problem.vpp if chunks > 1)


def unsharded(recipe: Recipe) -> bool:
    """Whether data-parallel ranks are copies of one another: stage 0 of an engine that shards by stage."""
    return recipe.zero_stage == 0 and recipe.engine not in FSDP


def layouts(problem: PlanProblem, recipe: Recipe, sites: Sites) -> Iterator[Layouts]:
    """Every layout of a recipe, in batches of about BATCH_CELLS rows times stages, shallow pipelines first."""
    axes = axes_of(problem, recipe, sites)
    held: list[dict[str, Whole]] = []
    rejected: Counter[str] = Counter()
    cells = visited = 0
    for start in range(0, axes.size, SLICE):
        rows = axes.decode(np.arange(start, min(start + SLICE, axes.size), dtype=np.int64))
        visited += int(sites.weight[rows["site"]].sum())
        rows, lost = _possible(recipe, rows, sites)
        rejected += lost
        for part in _parts(rows):
            held.append(part)
            cells += len(part["pp"]) * int(part["pp"].max())
            if cells >= BATCH_CELLS:
                yield _batch(problem, recipe, held, rejected, visited)
                held, rejected, cells, visited = [], Counter(), 0, 0
    if held or rejected or visited:
        yield _batch(problem, recipe, held, rejected, visited)


def combinations(problem: PlanProblem, recipe: Recipe, sites: Sites) -> int:
    """Combinations times machines of a recipe: the end of its progress; duplicates are in it, and are no candidates."""
    axes = axes_of(problem, recipe, sites)
    return axes.size // max(axes.sites, 1) * int(sites.weight.sum())


def stretches(stages: Whole, cells: int) -> Iterator[tuple[int, int]]:
    """Slices of rows of at most so many cells: rows times the deepest pipeline among them. `stages` is (R,).

    Rows stand shallow pipelines first, so that few of a slice are padded by much.
    """
    deepest = np.maximum.accumulate(stages)
    start = 0
    while start < len(stages):
        taken = np.arange(1, len(stages) - start + 1) * deepest[start:]
        end = start + max(int(np.searchsorted(taken, cells, side="right")), 1)
        yield start, end
        start = end


def _parts(rows: dict[str, Whole]) -> Iterator[dict[str, Whole]]:
    """Pieces of few enough cells each."""
    size = len(rows["pp"])
    if not size:
        return
    step = max(BATCH_CELLS // int(rows["pp"].max()), 1)
    for start in range(0, size, step):
        yield {name: values[start : start + step] for name, values in rows.items()}


def _possible(recipe: Recipe, rows: dict[str, Whole], sites: Sites) -> tuple[dict[str, Whole], Counter[str]]:
    """Combinations whose degrees divide the count within their domain; a duplicate of another row is no candidate.

    Hybrid sharding (one copy a node, sharded within) is another layout only over several nodes with several ranks each.
    """
    lost: Counter[str] = Counter()
    site = rows["site"]
    count, devices = sites.count[site], np.maximum(sites.devices[site], 1)
    model_ranks = rows["tp"] * rows["pp"] * rows["cp"]
    data = count // model_ranks
    nodes = np.maximum(count // devices, 1)
    hybrid = rows["hybrid"] == 1
    rows |= {"count": count, "data": data, "nodes": nodes}
    meant = ~hybrid | ((nodes > 1) & (data % nodes == 0) & (data > nodes))
    whole = data * model_ranks == count
    domain = np.maximum(sites.domain[site], 1)
    inside = (rows["tp"] <= domain) & (domain % np.minimum(rows["tp"], domain) == 0)
    chunked = _chunked(recipe, rows)
    gates = (("divisibility", whole), ("scale_up_domain", inside), ("divisibility", chunked))
    good = meant
    for reason, passes in gates:
        lost[reason] += int(sites.weight[site[good & ~passes]].sum())
        good = good & passes
    kept = np.flatnonzero(good)
    return {name: values[kept] for name, values in rows.items()}, +lost


def _chunked(recipe: Recipe, rows: dict[str, Whole]) -> NDArray[np.bool_]:
    """An interleaved schedule needs whole blocks in every virtual stage. Source: Megatron-LM, arguments' own checks."""
    if recipe.schedule is not Schedule.INTERLEAVED or recipe.model.inventory is None:
        return np.ones(rows["pp"].shape, dtype=np.bool_)
    return np.asarray(len(recipe.model.inventory.pattern) % (rows["pp"] * rows["vpp"]) == 0)


def _batch(
    problem: PlanProblem, recipe: Recipe, held: list[dict[str, Whole]], rejected: Counter[str], visited: int
) -> Layouts:
    names = held[0] if held else dict.fromkeys(("site", "data", "micro", "hybrid", "nodes", "count", *_DEGREES))
    nothing = np.zeros(0, dtype=np.int64)
    rows = {name: np.concatenate([part[name] for part in held]) if held else nothing for name in names}
    layout, unbalanced = _layout(problem, recipe, rows)
    return Layouts(layout, rows["site"], unbalanced, rejected, visited)


_DEGREES = ("tp", "pp", "vpp", "cp", "ep")


def _layout(problem: PlanProblem, recipe: Recipe, rows: dict[str, Whole]) -> tuple[Layout, NDArray[np.bool_]]:
    data, micro = rows["data"], rows["micro"]
    if problem.global_batch_tokens is None:
        # One round of the pipeline where nothing says how many: fewer micro-batches would leave stages idle.
        micro_batches, unbalanced = rows["pp"].copy(), np.zeros(data.shape, dtype=np.bool_)
    else:
        sequences = problem.global_batch_tokens // problem.sequence_length
        micro_batches = np.maximum(sequences // (data * micro), 1)
        unbalanced = micro_batches * data * micro != sequences
    if recipe.schedule is Schedule.INTERLEAVED:
        # Source: Megatron-LM: interleaving takes whole rounds of the pipeline.
        unbalanced = unbalanced | (micro_batches % rows["pp"] != 0)
    replicate = data if unsharded(recipe) else np.where(rows["hybrid"] == 1, rows["nodes"], 1)
    layout = Layout(
        count=column(rows["count"]),
        dp_replicate=column(replicate),
        dp_shard=column(data // replicate),
        **{name: column(rows[name]) for name in _DEGREES},
        etp=column(np.where(rows["ep"] > 1, 1, rows["tp"])),
        sequence_parallel=column(rows["tp"] > 1, np.bool_),
        sequence_length=column(np.full_like(data, problem.sequence_length)),
        micro_batch_size=column(micro),
        micro_batches=column(micro_batches),
    )
    return layout, unbalanced
