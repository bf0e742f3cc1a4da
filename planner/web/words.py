"""Slugs of the contract in the words of the pages. One row a word: add a row, not a branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.web.format import NBSP, short_count

Json = Mapping[str, Any]

BUCKETS: tuple[tuple[str, str, str], ...] = (
    ("parameters", "A", "Parameters"),
    ("gradients", "B", "Gradients"),
    ("master_weights", "C", "Master weights"),
    ("optimizer_states", "D", "Optimizer states"),
    ("activations", "E", "Activations"),
    ("logits_and_loss", "F", "Logits and loss"),
    ("communication_buffers", "G", "Communication buffers"),
    ("temporaries", "H", "Temporaries"),
    ("framework", "I", "Framework"),
)
"""Bucket, its letter and its name, in ledger order."""

PHASES: tuple[tuple[str, str, str], ...] = (
    ("initialisation", "init", "initialisation"),
    ("forward", "forward", "forward"),
    ("backward", "backward", "backward"),
    ("optimizer_step", "optimizer step", "optimizer step"),
    ("checkpoint_save", "save", "checkpoint save"),
)
"""Phase, the label under the chart and the name in a sentence."""

TIME_PARTS: tuple[tuple[str, str], ...] = (
    ("compute", "Compute"),
    ("memory_bound", "Memory-bound kernels"),
    ("exposed_communication", "Communication not hidden"),
    ("optimizer", "Optimizer"),
    ("pipeline_bubble", "Pipeline bubble"),
    ("offload", "Offload"),
)

_NAMES = {
    "fsdp1": "FSDP1",
    "fsdp2": "FSDP2",
    "deepspeed": "DeepSpeed",
    "megatron": "Megatron",
    "ddp": "DDP",
    "ideal": "the ZeRO paper's bookkeeping",
    "adam": "Adam",
    "adamw": "AdamW",
    "adamw-8bit": "AdamW 8-bit",
    "sgd": "SGD",
    "adafactor": "Adafactor",
    "lion": "Lion",
    "muon": "Muon",
}

REASONS = {
    "memory": "Memory",
    "deadline": "Deadline",
    "budget": "Budget",
    "divisibility": "Divisibility",
    "price_unknown": "No price",
    "price_stale": "Price too old",
    "engine_unsupported": "Engine does not run there",
    "availability": "Not enough on offer",
    "memory_unknown": "Memory size not known",
    "time_unknown": "Speed not known",
    "host_memory": "Host memory",
    "slower": "Slower than another layout",
}

OBJECTIVES = {"cost": "cost", "time": "time", "devices": "number of GPUs"}

STATUS_WORDS = {
    "queued": ("plain", "\u2026", "queued"),
    "running": ("plain", "\u2026", "running"),
    "succeeded": ("ok", "\u2713", "fits"),
    "infeasible": ("bad", "\u2715", "does not fit"),
    "failed": ("bad", "\u2715", "failed"),
    "cancelled": ("plain", "\u2013", "cancelled"),
}
"""Status of a plan: tag class, sign, word."""


KEYS = (
    ("Tab, Shift + Tab", "everything, in reading order; the skip link first"),
    ("Enter", "follows a link, presses a button, opens a number's formula"),
    ("Space", "ticks, opens a fold"),
    ("Esc", "closes the formula; the focus returns to its number"),
    ("/", "to the filter of a list"),
    ("n", "new plan"),
    ("j, k", "next, previous row of a list"),
    ("?", "this page"),
)
"""Keys and what they do, in the order of the page that lists them."""


def name(slug: str | None) -> str:
    """How people write a method: fsdp2 is FSDP2."""
    return "" if slug is None else _NAMES.get(slug, slug)


def reason(slug: str) -> str:
    """Why a candidate was turned down; an unknown reason is shown as it is spelled."""
    return REASONS.get(slug, slug.replace("_", " ").capitalize())


def phase(slug: str | None) -> str:
    """A phase inside a sentence."""
    return next((words for key, _, words in PHASES if key == slug), slug or "a step")


def model_title(model: object) -> str:
    """A model as the request gives it: a slug, a config.json, our own fields, tensors or a bare count."""
    if isinstance(model, str):
        return model
    if not isinstance(model, Mapping):
        return "a model"
    if isinstance(model.get("parameters"), int):
        return f"{short_count(model['parameters'])} parameters"
    if isinstance(model.get("config"), Mapping):
        config = model["config"]
        return str(config.get("_name_or_path") or config.get("model_type") or "config.json")
    if isinstance(model.get("architecture"), Mapping):
        return str(model["architecture"].get("family") or "own architecture")
    return "own tensors"


def plan_title(request: Json) -> str:
    """'llama-3-8b, 15 B tokens, sequence 8,192' from a plan request."""
    workload = request.get("workload") or {}
    parts = [model_title(request.get("model"))]
    if isinstance(workload.get("tokens"), int):
        parts.append(f"{short_count(workload['tokens'])} tokens")
    if isinstance(workload.get("sequence_length"), int):
        parts.append(f"sequence {workload['sequence_length']:,}")
    return ", ".join(parts)


def optimizer_name(optimizer: object) -> str:
    """An optimizer given as a name or as an object with options."""
    slug = optimizer.get("name") if isinstance(optimizer, Mapping) else optimizer
    return name(slug if isinstance(slug, str) else None)


def precision_name(precision: object) -> str:
    """A precision preset, or 'own precision' for an object."""
    return precision if isinstance(precision, str) else "own precision"


def recompute_name(recompute: object) -> str:
    """The recompute mode, with its reach where it is partial."""
    if not isinstance(recompute, Mapping):
        return str(recompute or "none")
    mode = str(recompute.get("mode", "none"))
    if recompute.get("every"):
        return f"{mode}, every {recompute['every']}"
    if recompute.get("layers") is not None:
        return f"{mode}, {recompute['layers']} layers"
    return mode


def offload_name(offload: object) -> str:
    """What is offloaded and where to; empty for nothing."""
    if not isinstance(offload, Mapping):
        return ""
    return ", ".join(f"{what} to {where}" for what, where in offload.items() if where not in (None, "none"))


def sharding(estimate: Json) -> str:
    """'FSDP2, ZeRO 3'; DDP shards nothing and says only its name."""
    shards = estimate.get("sharding") or {}
    engine, stage = name(shards.get("engine")), shards.get("zero_stage")
    return engine if stage in (None, 0) else f"{engine}, ZeRO{NBSP}{stage}"


def degrees(estimate: Json) -> str:
    """'dp 16 · tp 1 · pp 1', with cp and ep where they are used."""
    layout = estimate.get("parallelism") or {}
    replicate, shard = layout.get("dp_replicate") or 1, layout.get("dp_shard") or 1
    words = [f"dp{NBSP}{replicate * shard}", f"tp{NBSP}{layout.get('tp') or 1}", f"pp{NBSP}{layout.get('pp') or 1}"]
    words += [f"{key}{NBSP}{layout[key]}" for key in ("cp", "ep") if (layout.get(key) or 1) > 1]
    return " \u00b7 ".join(words)


def accumulation(estimate: Json) -> int | None:
    """Micro-batches a rank runs in one step: global batch over micro-batch and data-parallel ranks."""
    batch, layout = estimate.get("batch") or {}, estimate.get("parallelism") or {}
    whole, micro = batch.get("global_batch_size"), batch.get("micro_batch_size") or 1
    ranks = (layout.get("dp_replicate") or 1) * (layout.get("dp_shard") or 1)
    return None if whole is None else max(whole // (micro * ranks), 1)


def method(estimate: Json) -> str:
    """One line of how: engine, stage, optimizer, precision, batch, recompute."""
    batch = estimate.get("batch") or {}
    parts = [sharding(estimate), optimizer_name(estimate.get("optimizer")), precision_name(estimate.get("precision"))]
    steps = accumulation(estimate)
    micro = batch.get("micro_batch_size") or 1
    parts.append(f"micro-batch {micro}" + ("" if steps is None else f" \u00d7 {steps} accumulation steps"))
    recompute = recompute_name(estimate.get("recompute"))
    parts.append("no recompute" if recompute == "none" else f"{recompute} recompute")
    offloaded = offload_name(estimate.get("offload"))
    return ", ".join(parts + ([f"offload {offloaded}"] if offloaded else []))


_PERIODS = {1: "second", 60: "minute", 3600: "hour", 86_400: "day"}


def billing(offer: Json) -> str:
    """'by the minute', 'by the second, at least 60 s': how usage is rounded up; how it is not, where nobody knows."""
    period, minimum = offer.get("billing_period_seconds"), offer.get("billing_minimum_seconds")
    if not period:
        kind = offer.get("pricing")
        own = {"internal": "own devices, by the second", "reserved": "by the second; a commitment is paid for its term"}
        return own.get(str(kind), "by the second; how usage is rounded up is not known")
    each = f"by the {_PERIODS[period]}" if period in _PERIODS else f"in steps of {period:,}{NBSP}s"
    return each if not minimum or minimum <= period else f"{each}, at least {minimum:,}{NBSP}s"
