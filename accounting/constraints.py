"""What a layout may not be, as rows: vectorised, giving reason bits, never exceptions.

Used on one request (each broken rule becomes a fault at its pointer) and on a million candidates (each broken rule is a
counted rejection). A rule reads the recipe (one for all candidates) and the layout's columns; it is False everywhere
where the model says nothing about the question (a bare parameter count has no heads to divide).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.model import Architecture
from accounting.scenario import Layout, Recipe
from accounting.vocabulary import Attention, Engine, Schedule

Broken = NDArray[np.bool_]
LARGEST_BYTES = 2.0**61
"""Where a formula would come near the end of int64; nothing real is within a factor of a thousand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    key: str
    """The fault's code."""
    field: str
    """Pointer of the member to change."""
    reads: tuple[str, ...]
    """Pointers of the members it compares: where one of them is itself wrong, the rule has nothing to say."""
    reason: str
    """Under which of the plan's rejections it is counted."""
    message: str
    """One sentence with the values; names are those of `facts`."""
    broken: Callable[[Recipe, Layout], Broken | np.bool_ | bool]


def reasons(recipe: Recipe, layout: Layout, rules: tuple[Rule, ...] | None = None) -> NDArray[np.int64]:
    """Which rules each candidate breaks: bit i for rule i. [bit field, (N, 1)]"""
    bits = np.zeros(layout.count.shape, dtype=np.int64)
    for index, rule in enumerate(RULES if rules is None else rules):
        bits |= np.where(rule.broken(recipe, layout), np.int64(1) << index, np.int64(0))
    return bits


def broken_rules(bits: int) -> tuple[Rule, ...]:
    """The rules behind one candidate's bits, in order."""
    return tuple(rule for index, rule in enumerate(RULES) if bits >> index & 1)


def facts(recipe: Recipe, layout: Layout, row: int = 0) -> dict[str, Any]:
    """The values a rule's sentence may name, for one candidate."""
    values: dict[str, Any] = {name: int(getattr(layout, name)[row, 0]) for name in _NUMBERS}
    architecture = recipe.model.architecture
    moe = architecture.moe if architecture is not None else None
    return values | {
        "data_parallel": int(layout.data_parallel[row, 0]),
        "product": int(_product(layout)[row, 0]),
        "engine": recipe.engine.value,
        "stage": recipe.zero_stage,
        "heads": architecture.heads if architecture else None,
        "kv_heads": architecture.kv_heads if architecture else None,
        "blocks": _blocks(recipe),
        "experts": moe.experts if moe else 0,
        "stages": ", ".join(str(stage) for stage in STAGES[recipe.engine]),
        "layout": len(recipe.stage_layers or ()),
        "layout_sum": sum(recipe.stage_layers or ()),
        "schedule": recipe.schedule.value,
        "optimizer": recipe.optimizer.name,
        "precision": recipe.precision.name,
    }


STAGES: dict[Engine, tuple[int, ...]] = {
    Engine.DDP: (0,),
    Engine.FSDP1: (2, 3),
    Engine.FSDP2: (2, 3),
    Engine.DEEPSPEED: (0, 1, 2, 3),
    Engine.MEGATRON: (0, 1, 2, 3),
    Engine.IDEAL: (0, 1, 2, 3),
}
"""ZeRO stages each engine has; FSDP's SHARD_GRAD_OP is 2 and FULL_SHARD 3, Megatron's distributed optimizer is 1 and
its FSDP's optim_grads and optim_grads_params are 2 and 3."""

_NUMBERS = (
    "count",
    "dp_replicate",
    "dp_shard",
    "tp",
    "cp",
    "pp",
    "vpp",
    "ep",
    "etp",
    "sequence_length",
    "micro_batch_size",
    "micro_batches",
)


def _product(layout: Layout) -> NDArray[np.int64]:
    return layout.data_parallel * layout.tp * layout.cp * layout.pp


def _blocks(recipe: Recipe) -> int:
    """Blocks that a pipeline can spread; 0 where the model is a bare count or a list of tensors."""
    inventory = recipe.model.inventory
    return len(inventory.pattern) if inventory is not None else 0


def _shape(check: Callable[[Architecture, Recipe, Layout], Any]) -> Callable[[Recipe, Layout], Any]:
    """A rule on the model's shape: says nothing where the shape is not known."""

    def broken(recipe: Recipe, layout: Layout) -> Any:
        architecture = recipe.model.architecture
        return False if architecture is None else check(architecture, recipe, layout)

    return broken


def _divides(divisor: NDArray[np.int64], number: NDArray[np.int64] | int) -> Broken:
    return np.asarray(number % np.maximum(divisor, 1) == 0)


def _kv_heads(architecture: Architecture, recipe: Recipe, layout: Layout) -> Broken:
    """Megatron and DTensor replicate KV heads where tp is larger, whole numbers of times."""
    kv = architecture.kv_heads
    if architecture.mla is not None or kv < 1:
        return np.zeros(layout.tp.shape, dtype=np.bool_)
    return np.where(layout.tp > kv, layout.tp % kv != 0, ~_divides(layout.tp, kv))


def _experts(architecture: Architecture, recipe: Recipe, layout: Layout) -> Broken:
    experts = architecture.moe.experts if architecture.moe else 1
    return np.asarray((layout.ep > 1) & ~_divides(layout.ep, experts))


def _expert_group(recipe: Recipe, layout: Layout) -> Broken:
    group = layout.data_parallel * layout.cp * layout.tp
    # etp is tp unless stated, also for dense models: only an expert layout has a group to fill.
    asked = (layout.ep > 1) | (layout.etp != layout.tp)
    return np.asarray(asked & ~_divides(layout.ep * layout.etp, group))


def _ulysses(architecture: Architecture, recipe: Recipe, layout: Layout) -> Broken:
    if recipe.options.cp_comm_type != "a2a":
        return np.zeros(layout.cp.shape, dtype=np.bool_)
    return ~_divides(layout.cp * layout.tp, architecture.heads)


def _too_large(recipe: Recipe, layout: Layout) -> Broken:
    """An upper bound of a rank's activation bytes, in float64 so that it cannot itself overflow."""
    architecture = recipe.model.architecture
    if architecture is None:
        return np.zeros(layout.count.shape, dtype=np.bool_)
    tokens = layout.micro_batch_size.astype(np.float64) * layout.sequence_length
    width = architecture.hidden_size + architecture.ffn_size * (architecture.moe.top_k + 1 if architecture.moe else 1)
    width += architecture.heads * architecture.head_dim
    depth = _blocks(recipe) * layout.pp.astype(np.float64)
    amount = tokens * (64.0 * width * depth + 32.0 * architecture.vocab_size)
    if recipe.attention is not Attention.FLASH:
        amount = amount + 32.0 * tokens * layout.sequence_length * architecture.heads * depth
    return np.asarray(amount > LARGEST_BYTES)


_DEGREES = tuple(f"/parallelism/{name}" for name in ("dp_replicate", "dp_shard", "tp", "cp", "pp"))
_ENGINE = ("/sharding/engine", "/sharding/zero_stage")

RULES: tuple[Rule, ...] = (
    Rule(
        key="product_mismatch",
        field="/parallelism",
        reads=(*_DEGREES, "/hardware/count"),
        reason="divisibility",
        message="dp_replicate {dp_replicate} × dp_shard {dp_shard} × tp {tp} × cp {cp} × pp {pp} = {product}, but "
        "count is {count}; change a degree or the count",
        broken=lambda recipe, layout: _product(layout) != layout.count,
    ),
    Rule(
        key="not_a_divisor",
        field="/parallelism/tp",
        reads=("/model", "/parallelism/tp"),
        reason="divisibility",
        message="tp={tp} does not divide {heads} attention heads",
        broken=_shape(lambda architecture, recipe, layout: ~_divides(layout.tp, architecture.heads)),
    ),
    Rule(
        key="not_a_divisor",
        field="/parallelism/tp",
        reads=("/model", "/parallelism/tp"),
        reason="divisibility",
        message="tp={tp} and {kv_heads} KV heads: one must divide the other",
        broken=_shape(_kv_heads),
    ),
    Rule(
        key="not_a_divisor",
        field="/batch/sequence_length",
        reads=("/batch/sequence_length", "/parallelism/tp", "/parallelism/sequence_parallel"),
        reason="divisibility",
        message="sequence parallelism splits {sequence_length} tokens over tp={tp}, which does not divide them",
        broken=lambda recipe, layout: (
            layout.sequence_parallel & (layout.tp > 1) & ~_divides(layout.tp, layout.sequence_length)
        ),
    ),
    Rule(
        key="cp_beyond_sequence",
        field="/parallelism/cp",
        reads=("/batch/sequence_length", "/parallelism/cp"),
        reason="divisibility",
        message="cp={cp} ranks share a sequence of {sequence_length} tokens: there are fewer tokens than ranks",
        broken=lambda recipe, layout: layout.cp > layout.sequence_length,
    ),
    Rule(
        key="not_a_divisor",
        field="/options/cp_comm_type",
        reads=("/model", "/parallelism/cp", "/parallelism/tp", "/options/cp_comm_type"),
        reason="divisibility",
        message="a2a gives each of cp={cp} × tp={tp} ranks whole heads, and {heads} heads do not divide evenly",
        broken=_shape(_ulysses),
    ),
    Rule(
        key="no_experts",
        field="/parallelism/ep",
        reads=("/model", "/parallelism/ep"),
        reason="divisibility",
        message="ep={ep}, but the model has no experts; ep must be 1",
        broken=_shape(lambda architecture, recipe, layout: (layout.ep > 1) & (architecture.moe is None)),
    ),
    Rule(
        key="not_a_divisor",
        field="/parallelism/ep",
        reads=("/model", "/parallelism/ep"),
        reason="divisibility",
        message="ep={ep} does not divide {experts} experts",
        broken=_shape(
            lambda architecture, recipe, layout: _experts(architecture, recipe, layout) & (architecture.moe is not None)
        ),
    ),
    Rule(
        key="not_a_divisor",
        field="/parallelism/ep",
        reads=(*_DEGREES, "/parallelism/ep", "/parallelism/etp"),
        reason="divisibility",
        message="ep {ep} × etp {etp} does not divide dp {data_parallel} × cp {cp} × tp {tp}",
        broken=_expert_group,
    ),
    Rule(
        key="more_stages_than_layers",
        field="/parallelism/pp",
        reads=("/model", "/parallelism/pp"),
        reason="divisibility",
        message="pp={pp} stages share {blocks} layers: there are fewer layers than stages",
        broken=_shape(lambda architecture, recipe, layout: layout.pp > _blocks(recipe)),
    ),
    Rule(
        key="more_stages_than_layers",
        field="/parallelism/vpp",
        reads=("/model", "/parallelism/pp", "/parallelism/vpp"),
        reason="divisibility",
        message="pp {pp} × vpp {vpp} virtual stages share {blocks} layers: there are fewer layers than virtual stages",
        broken=_shape(
            lambda architecture, recipe, layout: (
                (layout.pp <= _blocks(recipe)) & (layout.pp * layout.vpp > _blocks(recipe))
            )
        ),
    ),
    Rule(
        key="pipeline_needs_layers",
        field="/parallelism/pp",
        reads=("/model", "/parallelism/pp"),
        reason="divisibility",
        message="pp={pp}, but this model is given without layers; give a config or an architecture, or pp 1",
        broken=lambda recipe, layout: (layout.pp > 1) & (recipe.model.architecture is None),
    ),
    Rule(
        key="layout_length",
        field="/pipeline/layout",
        reads=("/pipeline/layout", "/parallelism/pp"),
        reason="divisibility",
        message="the layout names {layout} stages, and pp is {pp}",
        broken=lambda recipe, layout: False if recipe.stage_layers is None else layout.pp != len(recipe.stage_layers),
    ),
    Rule(
        key="layout_sum",
        field="/pipeline/layout",
        reads=("/pipeline/layout", "/model"),
        reason="divisibility",
        message="the layout places {layout_sum} layers, and the model has {blocks}",
        broken=_shape(
            lambda architecture, recipe, layout: (
                recipe.stage_layers is not None and sum(recipe.stage_layers) != _blocks(recipe)
            )
        ),
    ),
    Rule(
        key="schedule_mismatch",
        field="/pipeline/schedule",
        reads=("/pipeline/schedule", "/parallelism/vpp", "/parallelism/pp"),
        reason="schedule",
        message="the {schedule} schedule and vpp={vpp} exclude one another: interleaved needs vpp > 1, "
        "1f1b and gpipe vpp 1",
        broken=lambda recipe, layout: (
            (layout.pp > 1)
            & np.where(
                layout.vpp > 1,
                recipe.schedule in {Schedule.ONE_F_ONE_B, Schedule.GPIPE},
                recipe.schedule is Schedule.INTERLEAVED,
            )
        ),
    ),
    Rule(
        key="stage_unsupported",
        field="/sharding/zero_stage",
        reads=_ENGINE,
        reason="engine_unsupported",
        message="{engine} has no ZeRO stage {stage}; it has {stages}",
        broken=lambda recipe, layout: recipe.zero_stage not in STAGES[recipe.engine],
    ),
    Rule(
        key="nothing_sharded",
        field="/parallelism/dp_shard",
        reads=(*_ENGINE, "/parallelism/dp_shard"),
        reason="engine_unsupported",
        message="at ZeRO stage 0 nothing is sharded, but dp_shard is {dp_shard}; write it as dp_replicate",
        broken=lambda recipe, layout: (recipe.zero_stage == 0) & (layout.dp_shard > 1),
    ),
    Rule(
        key="pipeline_with_sharded_gradients",
        field="/sharding/zero_stage",
        reads=(*_ENGINE, "/parallelism/pp"),
        reason="engine_unsupported",
        message="DeepSpeed's pipeline engine takes ZeRO stages 0 and 1; pp={pp} and stage {stage} exclude each other",
        broken=lambda recipe, layout: (recipe.engine is Engine.DEEPSPEED) & (recipe.zero_stage > 1) & (layout.pp > 1),
    ),
    Rule(
        # Source: Megatron-LM, user guide of Megatron FSDP (tensor, expert and context parallelism) and its issue 1455.
        key="pipeline_with_sharded_gradients",
        field="/sharding/zero_stage",
        reads=(*_ENGINE, "/parallelism/pp"),
        reason="engine_unsupported",
        message="Megatron's FSDP (stages 2 and 3) goes with tensor, context and expert parallelism and with no "
        "pipeline; pp={pp} and stage {stage} exclude each other, stage 1 is its distributed optimizer",
        broken=lambda recipe, layout: (recipe.engine is Engine.MEGATRON) & (recipe.zero_stage > 1) & (layout.pp > 1),
    ),
    Rule(
        key="precision_unsupported",
        field="/precision",
        reads=(*_ENGINE, "/precision"),
        reason="engine_unsupported",
        message="Megatron's FSDP (stages 2 and 3) keeps weights in 16 bit beside an fp32 master and has no autocast "
        "over fp32 weights, which {precision} is; use bf16-master-fp32grad",
        broken=lambda recipe, layout: (
            recipe.engine is Engine.MEGATRON
            and recipe.zero_stage > 1
            and recipe.precision.parameters == "fp32" != recipe.precision.compute
        ),
    ),
    Rule(
        key="step_in_backward_with_accumulation",
        field="/options/optimizer_in_backward",
        reads=("/options/optimizer_in_backward", "/batch", "/parallelism"),
        reason="batch",
        message="optimizer_in_backward frees each gradient at once and cannot accumulate {micro_batches} "
        "micro-batches; raise micro_batch_size or lower global_batch_size",
        broken=lambda recipe, layout: recipe.options.optimizer_in_backward & (layout.micro_batches > 1),
    ),
    Rule(
        key="too_large",
        field="/batch",
        reads=("/model", "/batch/sequence_length", "/batch/micro_batch_size", "/parallelism/pp"),
        reason="memory",
        message="{micro_batch_size} sequences of {sequence_length} tokens in this model are beyond 2^61 bytes",
        broken=_too_large,
    ),
)
