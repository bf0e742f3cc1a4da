"""Mistakes that people make when they count memory, met in a request: each becomes a warning its author can act on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from accounting.facts.knobs import KNOBS
from accounting.facts.refusals import refusal_of
from accounting.machine import compute_rate
from accounting.optimizer_laws import needs_shapes
from accounting.options import Options
from accounting.scenario import Layout, Recipe
from accounting.vocabulary import Engine
from planner.requests.hardware import Hardware
from planner.requests.notes import Notes

SLOW_NODE_BYTES_PER_SECOND = 25e9
"""200 Gb/s a node: below it ZeRO-3 between nodes is reported not to keep up (ml-engineering, network chapter)."""
RATE_OF = {"mxfp8": "fp8", "nvfp4": "fp4"}
"""Formats whose rate the catalog lists under another name."""
SIXTEEN_BITS = frozenset({"bf16", "fp16"})
FLAT_SHARDS = frozenset({Engine.FSDP1, Engine.DEEPSPEED, Engine.MEGATRON})


def note_pitfalls(recipe: Recipe, layout: Layout, hardware: Hardware, options: Mapping[str, Any], notes: Notes) -> None:
    """Everything a right request may still get wrong."""
    for warning in (
        *_states(recipe),
        *_optimizer(recipe),
        *_model(recipe),
        *_groups(recipe, layout),
        *_device(recipe, hardware),
        *_network(recipe, layout, hardware),
        *_idle_knobs(recipe, layout, options),
    ):
        notes.warn(warning)


def _states(recipe: Recipe) -> Iterator[str]:
    precision = recipe.precision
    if precision.parameters in SIXTEEN_BITS and precision.master_weights is None:
        yield (
            f"{precision.name} holds no fp32 master copy (4 bytes a parameter less): {precision.parameters} keeps "
            f"{'8' if precision.parameters == 'bf16' else '11'} bits of mantissa, so small updates round away; "
            f"{precision.parameters}-master keeps it"
        )
    if recipe.engine is Engine.MEGATRON and precision.parameters == "fp32" != precision.compute:
        yield (
            f"Megatron has no autocast over fp32 weights, which {precision.name} is: its 16-bit recipe is "
            "bf16-master-fp32grad (18 bytes a parameter)"
        )


def _optimizer(recipe: Recipe) -> Iterator[str]:
    optimizer = recipe.optimizer
    plain = optimizer.name in {"adam", "adamw", "sgd"} and recipe.precision.stepped == "fp32"
    if optimizer.caveat and not plain:
        yield f"{optimizer.name}: {optimizer.caveat}"
    quantised = any(word in optimizer.name for word in ("8bit", "4bit", "fp8"))
    if quantised and "noise" not in optimizer.caveat:
        yield f"{optimizer.name}: quantised moments add noise to every update; compare a short run with fp32 moments"
    if not optimizer.measured:
        yield f"{optimizer.name}: its state rule was read in the source, and no run has confirmed it"
    refusal = refusal_of(recipe.engine, optimizer.name)
    if refusal is not None:
        yield (
            f"{optimizer.name} does not run under {recipe.engine}: {refusal.because}, and {optimizer.library} "
            f"{optimizer.library_version} stops with “{refusal.words}”; the bytes are those it would hold"
        )
    elif optimizer.needs_matrices and recipe.engine in FLAT_SHARDS and recipe.zero_stage > 0:
        yield (
            f"{optimizer.name} must see whole matrices, and {recipe.engine} shards flat buffers: "
            "it refuses or falls back there; fsdp2 and ddp keep matrices whole"
        )


def _model(recipe: Recipe) -> Iterator[str]:
    model = recipe.model
    if model.architecture is None:
        what = "a bare count" if model.inventory is None else "a list of tensors"
        yield (
            f"the model is {what}: activations, logits and time are null, and the total is not the memory of the run; "
            "at long context activations rival the states"
        )
    if model.inventory is None and needs_shapes(recipe.optimizer):
        yield f"{recipe.optimizer.name}'s states depend on the shapes of the tensors: under a bare count they are null"


def _groups(recipe: Recipe, layout: Layout) -> Iterator[str]:
    group = int((layout.dp_shard * layout.cp)[0, 0])
    copies = int(layout.dp_replicate[0, 0])
    if recipe.zero_stage > 0 and group == 1 and copies > 1:
        yield f"states are sharded over a group of one and copied {copies} times: this is plain data parallelism"
    if int(layout.pp[0, 0]) == 1 and int(layout.vpp[0, 0]) > 1:
        yield "vpp changes nothing: pp is 1"
    batches, stages = int(layout.micro_batches[0, 0]), int(layout.pp[0, 0])
    if batches < stages:
        yield f"{batches} micro-batches cannot fill {stages} pipeline stages: most of the step is bubble"


def _device(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    accelerator, compute = hardware.accelerator, recipe.precision.compute
    if accelerator.memory_bytes is None:
        yield f"the capacity of {accelerator.slug} is not known: fits is null; state hardware.overrides.memory_bytes"
    if compute == "bf16" and not accelerator.supports_bf16:
        yield (
            f"{accelerator.slug} has no bf16 units: bf16 runs through fp32 there; use fp16-mixed or fp16-master, "
            "with an fp32 master and loss scaling"
        )
    rate, dtype = compute_rate(accelerator, compute)
    if rate is None:
        yield f"no rate of {accelerator.slug} for {compute} is known: time is null"
    elif dtype != RATE_OF.get(compute, compute):
        yield f"{accelerator.slug} has no {compute} rate in the catalog: time is that of {dtype}"
    if accelerator.memory_bandwidth_bytes_per_second is None:
        yield f"the memory bandwidth of {accelerator.slug} is not known: time is null"


def _network(recipe: Recipe, layout: Layout, hardware: Hardware) -> Iterator[str]:
    node = hardware.node_type
    if node is None or int(layout.count[0, 0]) <= node.accelerator_count:
        return
    speed = node.inter_bytes_per_second_total
    if speed is None:
        yield f"the network between nodes of {node.slug} is not known: time is null; state options.inter_node_gbps"
    elif recipe.zero_stage == 3 and speed < SLOW_NODE_BYTES_PER_SECOND:  # noqa: PLR2004
        yield (
            f"ZeRO-3 gathers all weights twice a micro-batch over {speed * 8 / 1e9:g} Gb/s a node: it saves memory and "
            "pays in traffic; shard within a node (dp_shard), copy between nodes (dp_replicate), or take stage 1 or 2"
        )
    within = node.scaleup_domain_size
    if int(layout.tp[0, 0]) > within:
        yield f"tp spans nodes: {int(layout.tp[0, 0])} ranks, {within} devices on the fast link"


def _idle_knobs(recipe: Recipe, layout: Layout, options: Mapping[str, Any]) -> Iterator[str]:
    defaults = Options()
    for name in options:
        if getattr(recipe.options, name) == getattr(defaults, name):
            continue
        reason = KNOBS[name].ignored_because(recipe, layout)
        if reason is not None:
            yield f"options.{name} changes nothing in the estimate: {reason}"
