"""The numbers above the ledger taken apart: the whole card, hours, dollars, throughput, and what lies outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from accounting.units import GB
from planner.web import explain_job
from planner.web import format as text
from planner.web.explain_inputs import Input
from planner.web.explain_job import Filled
from planner.web.explanation import (
    Asked,
    ExplainedLine,
    Explanation,
    difference_of,
    moves_of,
    sizes,
    trust_of,
)
from planner.web.ledger import read_ledger
from planner.web.words import Json


@dataclass(frozen=True)
class Total:
    """A number that is arithmetic on others: its words, its formula, and where its rule comes from."""

    title: str
    scope: str
    introduction: str
    formula: str
    source: str


TOTALS: Mapping[str, Total] = {
    "allocated": Total(
        "Peak allocated", "per GPU", "Every bucket at the fullest moment of the fullest rank.",
        "allocated = sum of the buckets A to I at the peak", "Compare with max_memory_allocated of the framework.",
    ),
    "device": Total(
        "Memory of the card", "per GPU", "What the driver shows while the job runs.",
        "device = peak allocated + allocator slack + context and NCCL", "Compare with nvidia-smi.",
    ),
    "hours": Total(
        "Time", "whole job", "Steps one after the other, with failures, restarts and checkpoints.",
        "hours = ceil(tokens / tokens per step) \u00b7 seconds per step / goodput / 3600",
        "Young 1974 and Daly 2006 for the goodput.",
    ),
    "cost": Total(
        "Cost", "whole job", "Hours that are paid at the price of everything rented.",
        "USD = ceil(max(hours, minimum) / billing period) \u00b7 billing period \u00b7 USD per hour",
        "The offer named below.",
    ),
    "rate": Total(
        "Cost per hour", "all GPUs", "Whole instances, spread over the GPUs that work.",
        "USD per hour = GPUs \u00b7 price of an instance / GPUs of an instance", "The offer named below.",
    ),
    "throughput": Total(
        "Throughput", "per GPU", "Tokens of one step over its seconds.",
        "tokens/s per GPU = sequences per step \u00b7 sequence / seconds per step / GPUs", "Arithmetic on the step.",
    ),
    "mfu": Total(
        "MFU", "all GPUs", "Model FLOP utilisation: what the model needs against what the cards could do.",
        "MFU = model FLOP per step / (GPUs \u00b7 dense peak \u00b7 seconds per step)",
        "Chowdhery 2022; recomputation is not counted.",
    ),
    "host-load": Total(
        "Host memory while loading", "per node", "What the processes of a node hold while the weights are read.",
        "bytes = GPUs of the node in use \u00b7 (weights a process reads + host lines while loading)",
        "Reports of ranks \u00b7 checkpoint; checkpoint files of 5 GB.",
    ),
    "host-run": Total(
        "Host memory while training", "per node", "Offloaded states and scalars of the ranks of a node.",
        "bytes = GPUs of the node in use \u00b7 host lines at their worst moment", "Sum of the host lines below.",
    ),
    "checkpoint-weights": Total(
        "Checkpoint, weights only", "whole model", "The trained weights on disk.",
        "bytes = trained parameters \u00b7 bytes of the compute dtype", "DeepSpeed and Megatron checkpoints.",
    ),
    "checkpoint-full": Total(
        "Checkpoint, resumable", "whole model", "Weights, master copy and optimizer states as they are held.",
        "bytes = trained parameters \u00b7 (parameter + master bytes) + optimizer states", "12 to 16 bytes each.",
    ),
}  # fmt: skip


def explain_total(subject: str, asked: Asked) -> Explanation | None:
    """The explanation of one total; None where the answer does not have it."""
    total, found = TOTALS[subject], _FILL[subject](asked)
    if found is None:
        return None
    line = ExplainedLine("", total.introduction, total.formula, found.filled, "", total.source, found.share)
    return Explanation(
        subject=subject,
        title=total.title,
        value=found.value,
        scope=total.scope,
        introduction="",
        lines=(replace(line, note="Formula"), *found.parts),
        inputs=found.inputs,
        moves=_moves(subject, asked),
        trust=found.trust or trust_of(asked),
    )


def _moves(subject: str, asked: Asked) -> Any:
    """Changes of the request that move the total, where an estimate alone can say by how much."""
    read = _READ.get(subject)
    return () if read is None else moves_of(asked, read[0], read[1])


def _memory(asked: Asked) -> Json:
    held: Json = asked.answer["memory"]
    return held


def _part(name: str, share: str) -> ExplainedLine:
    return ExplainedLine("", name, "", "", "", "", share)


def _allocated(asked: Asked) -> Filled:
    ledger = read_ledger(_memory(asked))
    filled = " + ".join(row.gib for row in ledger.rows)
    parts = tuple(_part(f"{row.letter}: {row.name}", sizes(row.size)) for row in ledger.rows)
    return Filled(text.memory(ledger.allocated, 2), f"{filled} GiB", sizes(ledger.allocated), parts)


def _device(asked: Asked) -> Filled | None:
    held = _memory(asked)
    capacity, ledger = held.get("capacity_bytes"), read_ledger(held)
    filled = " + ".join([ledger.allocated_gib, *(row.gib for row in ledger.outside)])
    inputs = [Input("peak", "peak allocated", text.memory(ledger.allocated, 2), "the ledger")]
    inputs += [Input(row.letter, row.name.lower(), text.memory(row.size, 2), row.how) for row in ledger.outside]
    if capacity is not None:
        inputs.append(Input("card", "capacity, as the driver reports it", text.capacity(capacity), "catalog"))
    return Filled(text.need(ledger.device), f"{filled} GiB", sizes(ledger.device), (), tuple(inputs))


def _size(read: Callable[[Json], Any]) -> Callable[[Asked], Filled | None]:
    """A size of the answer, with the host lines behind it."""

    def fill(asked: Asked) -> Filled | None:
        size = read(_memory(asked))
        if not size:
            return None
        lines = [line for line in _memory(asked).get("lines") or () if not line.get("device", True)]
        parts = tuple(
            _part(str(line.get("note") or line.get("formula")), sizes(max(line["bytes_by_phase"].values())))
            for line in lines
        )
        return Filled(text.memory(size, 2), "", sizes(size), parts if read is _host_run else ())

    return fill


def _host_run(held: Json) -> Any:
    return held.get("host_bytes_per_node")


def _checkpoint(asked: Asked, part: str, each: str) -> Filled | None:
    size = (_memory(asked).get("checkpoint_bytes") or {}).get(part)
    if not size:
        return None
    trained = asked.scenario.recipe.inventory.trainable_parameters
    filled = f"{trained:,} parameters \u00b7 {text.plain(round(size / trained, 2))} bytes"
    inputs = (Input("T", "trained parameters", text.count(trained), each),)
    return Filled(f"{text.fixed(size / GB, 1)}{text.NBSP}GB", filled, sizes(size), (), inputs)


_FILL: Mapping[str, Callable[[Asked], Filled | None]] = {
    "allocated": _allocated,
    "device": _device,
    "hours": explain_job.hours,
    "cost": explain_job.cost,
    "rate": explain_job.rate,
    "throughput": explain_job.throughput,
    "mfu": explain_job.mfu,
    "host-load": _size(lambda held: held.get("host_load_bytes_per_node")),
    "host-run": _size(_host_run),
    "checkpoint-weights": lambda asked: _checkpoint(asked, "weights", "the model"),
    "checkpoint-full": lambda asked: _checkpoint(asked, "full", "the model"),
}
_READ: Mapping[str, tuple[Callable[[Json], Any], Callable[[Any], str]]] = {
    "allocated": (lambda answer: answer["memory"].get("peak_allocated_bytes"), text.memory_difference),
    "device": (lambda answer: answer["memory"].get("device_bytes"), text.memory_difference),
    "throughput": (
        lambda answer: (answer.get("time") or {}).get("tokens_per_second_per_device"),
        difference_of(text.significant),
    ),
    "mfu": (
        lambda answer: (answer.get("time") or {}).get("mfu"),
        difference_of(lambda value: f"{text.fixed(100 * value, 1)}{text.NBSP}points"),
    ),
}
