"""How a ledger line comes about, with this candidate's numbers filled in: bytes × count ÷ divisor, in a few words."""

from __future__ import annotations

from collections.abc import Callable

from accounting.facts.dtypes import itemsize
from accounting.memory.context import Context
from accounting.units import Bytes

BILLION, MILLION = 10**9, 10**6


def how_of(context: Context, key: str, index: int, stage: int) -> str | None:
    """The sentence of one line; None where the docstring's own first sentence says it as well."""
    sentence = SENTENCES.get(key)
    return None if sentence is None else sentence(context, index, stage)


def at(values: Bytes | int, index: int, stage: int) -> int:
    """One candidate's value on one stage, of what broadcasts to (N, S)."""
    if isinstance(values, int) or not values.ndim:
        return int(values)
    rows, stages = values.shape
    return int(values[index if rows > 1 else 0, stage if stages > 1 else 0])


def short(count: int) -> str:
    """`8.03 B`, `262 M`, `4,096`."""
    if count >= BILLION:
        return f"{count / BILLION:.3g} B"
    return f"{count / MILLION:.3g} M" if count >= MILLION else f"{count:,}"


def _state(part: str, divided: str) -> Callable[[Context, int, int], str | None]:
    def sentence(context: Context, index: int, stage: int) -> str | None:
        dtype = getattr(context.recipe.precision, part)
        if dtype is None:
            return None
        elements = short(at(context.trainable_elements, index, stage))
        return f"{itemsize(dtype)} B × {elements}{_share(context, divided, index)}, {dtype}"

    return sentence


def _share(context: Context, divided: str, index: int) -> str:
    ranks = int(context.partition.shard_group[index, 0])
    return f" ÷ {ranks}" if getattr(context.law, divided) and ranks > 1 else ""


def _optimizer(context: Context, index: int, stage: int) -> str:
    elements = short(at(context.trainable_elements, index, stage))
    return f"{context.recipe.optimizer.name} on {elements}{_share(context, 'states', index)}"


def _frozen(context: Context, index: int, stage: int) -> str:
    elements = short(at(context.partition.elements(trainable=False), index, stage))
    return f"{elements} frozen, {context.base_dtype}{_share(context, 'parameters', index)}"


def _blocks(context: Context, index: int, stage: int) -> str:
    layers = at(context.partition.layers, index, stage)
    tokens = int(context.partition.tokens[index, 0])
    held = at(context.stage.one_micro_batch, index, stage)
    live = at(context.partition.live_chunks, index, stage)
    per_token = held // max(tokens * layers, 1)
    flights = f" × {live} in flight" if live > 1 else ""
    return f"{per_token:,} B × {tokens:,} tokens × {layers} layers{flights}"


def _logits(context: Context, index: int, stage: int) -> str | None:
    architecture = context.recipe.model.architecture
    if architecture is None:
        return None
    tokens, ways = int(context.partition.tokens[index, 0]), int(context.layout.tp[index, 0])
    split = f" ÷ {ways}" if ways > 1 else ""
    return f"{context.recipe.options.loss} loss: {tokens:,} tokens × {architecture.vocab_size:,} words{split}"


def _units(context: Context, index: int, stage: int) -> str:
    block = short(at(context.block_elements, index, stage))
    root = short(at(context.root_elements, index, stage))
    return f"gathered blocks of {block} and the root of {root}"


SENTENCES: dict[str, Callable[[Context, int, int], str | None]] = {
    "states.parameters": _state("parameters", "parameters"),
    "states.frozen_parameters": _frozen,
    "states.gradients": _state("gradients", "gradients"),
    "states.master_weights": _state("master_weights", "states"),
    "states.optimizer": _optimizer,
    "activations.blocks": _blocks,
    "loss.logits": _logits,
    "buffers.gathered_units": _units,
}
